package rendezvous

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/banyan-hpc/banyan/internal/launch/pmi"
)

// Pauses between attempts to reach rank 0, or to find out where it is. Names are
// asked of a server that many ranks may ask at once.
const (
	retryPauseMin   = 5 * time.Millisecond
	retryPauseMax   = 250 * time.Millisecond
	resolvePauseMax = time.Second
)

// dial connects to rank 0 and waits until it listens, but no longer than a
// start-up may take. Where there is a secret, id is the job's name as rank 0 has
// proved it.
func dial(ctx context.Context, p *Config) (conn pmi.Conn, id string, err error) {
	err = p.retry(ctx, "rank 0 at "+p.Addr+" (MASTER_ADDR and MASTER_PORT)", func(ctx context.Context) error {
		conn, id, err = attempt(ctx, p)
		return err
	}, func(err error) bool { return errors.Is(err, pmi.ErrRefused) || errors.Is(err, pmi.ErrProtocol) })
	var late *lateError
	if errors.As(err, &late) {
		why := fmt.Sprintf("has not answered at %s within %v: %v", p.Addr, p.timeout, late.last)
		err = &pmi.MissingError{Lost: []pmi.Lost{{Why: why}}, Total: 1}
	}
	return conn, id, err
}

// lateError: the time for the start-up is over.
type lateError struct{ last error }

func (e *lateError) Error() string { return e.last.Error() }
func (e *lateError) Unwrap() error { return e.last }

// retry tries until an attempt succeeds, fails in a way that is final, or
// the start-up has taken too long (then the error is a lateError). After a while
// it says on standard error, once, what it waits for.
func (p *Config) retry(ctx context.Context, what string, try func(context.Context) error, final func(error) bool) error {
	limited, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	var last atomic.Pointer[error]
	until, _ := limited.Deadline()
	told := p.warnLater(what, &last)
	defer told.Stop()
	pauseMax := retryPauseMax
	if p.named() {
		pauseMax = resolvePauseMax
	}
	for pause := retryPauseMin; ; pause = min(2*pause, pauseMax) {
		err := try(limited)
		if err == nil || final(err) {
			return err
		}
		if last.Load() == nil || time.Now().Before(until) { // the context may not have noticed
			last.Store(&err) // the error of an attempt that was cut short says less
		}
		select {
		case <-time.After(pause):
		case <-limited.Done():
			if ctx.Err() != nil {
				return fmt.Errorf("launch: join: %w", context.Cause(ctx))
			}
			return &lateError{*last.Load()}
		}
	}
}

// attempt is one attempt. An error of class ErrRefused or ErrProtocol will not
// change with time.
func attempt(ctx context.Context, p *Config) (_ pmi.Conn, id string, err error) {
	conn, err := p.reach(ctx)
	if err != nil {
		return nil, "", err
	}
	interrupt := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	id, err = handshake(conn, p)
	if !interrupt() && err == nil {
		err = context.Cause(ctx) // its deadline has passed or will
	}
	if err != nil {
		conn.Close()
		return nil, "", err
	}
	return conn, id, nil
}

// handshake says who this rank is, proves that it knows the secret if there is
// one, and has rank 0 prove the same.
func handshake(conn net.Conn, p *Config) (id string, err error) {
	e := proof{client: hello{rank: p.Rank, size: p.Size, token: p.token}}
	if p.key != nil {
		e.key, e.clientNonce = *p.key, newNonce()
		e.client.nonce = e.clientNonce
	}
	if _, err := conn.Write([]byte(e.client.line())); err != nil {
		return "", err
	}
	r := bufio.NewReaderSize(conn, helloMax)
	line, err := readLine(r)
	if nonce, ok := parseChallenge(line); ok && err == nil && p.key != nil {
		e.serverNonce = nonce
		if _, err := conn.Write([]byte(response(e.mac("guest", "")))); err != nil {
			return "", err
		}
		line, err = readLine(r)
	}
	w, ok := parseVerdict(line)
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return "", p.notRankZero("it said " + err.Error())
	case errors.Is(err, errOutOfTurn), err == nil && !ok:
		return "", p.notRankZero("it said " + pmi.Excerpt(line))
	case err != nil:
		return "", err
	case w.refusal != nil:
		return "", fmt.Errorf("launch: rank 0 at %s: %w: %w", p.Addr, pmi.ErrRefused, w.refusal)
	case p.key == nil:
		return "", nil
	case e.serverNonce == "" || w.id == "" || !e.verify("host", w.id, w.mac):
		return "", p.notRankZero("it does not know the secret in the file of " + SecretFileEnv)
	}
	return w.id, nil
}

// notRankZero is the error for what answers and is not rank 0.
func (p *Config) notRankZero(why string) error {
	return fmt.Errorf("launch: %w: what answers at %s (MASTER_ADDR and MASTER_PORT) is not rank 0 of a Banyan job: %s",
		pmi.ErrProtocol, p.Addr, why)
}
