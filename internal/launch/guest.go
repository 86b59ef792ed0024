package launch

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"
)

// Pauses between attempts to reach rank 0, or to find out where it is. Names are
// asked of a server that many ranks may ask at once.
const (
	knockPauseMin = 5 * time.Millisecond
	knockPauseMax = 250 * time.Millisecond
	askPauseMax   = time.Second
)

// visit connects to rank 0 and waits until it listens, but no longer than a
// start-up may take. Where there is a secret, id is the job's name as rank 0 has
// proved it.
func visit(ctx context.Context, p *meeting) (conn connection, id string, err error) {
	err = p.patiently(ctx, "rank 0 at "+p.addr+" (MASTER_ADDR and MASTER_PORT)", func(ctx context.Context) error {
		conn, id, err = knock(ctx, p)
		return err
	}, func(err error) bool { return errors.Is(err, ErrRefused) || errors.Is(err, ErrProtocol) })
	var late *lateError
	if errors.As(err, &late) {
		why := fmt.Sprintf("has not answered at %s within %v: %v", p.addr, p.timeout, late.last)
		err = &MissingError{Lost: []Lost{{0, why}}, Total: 1}
	}
	return conn, id, err
}

// lateError: the time for the start-up is over.
type lateError struct{ last error }

func (e *lateError) Error() string { return e.last.Error() }
func (e *lateError) Unwrap() error { return e.last }

// patiently tries until an attempt succeeds, fails in a way that is final, or
// the start-up has taken too long (then the error is a lateError). After a while
// it says on standard error, once, what it waits for.
func (p *meeting) patiently(ctx context.Context, what string, try func(context.Context) error, final func(error) bool) error {
	limited, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	var last atomic.Pointer[error]
	until, _ := limited.Deadline()
	told := p.tell(what, &last)
	defer told.Stop()
	pauseMax := knockPauseMax
	if p.named() {
		pauseMax = askPauseMax
	}
	for pause := knockPauseMin; ; pause = min(2*pause, pauseMax) {
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

// knock is one attempt. An error of class ErrRefused or ErrProtocol will not
// change with time.
func knock(ctx context.Context, p *meeting) (_ connection, id string, err error) {
	conn, err := p.reach(ctx)
	if err != nil {
		return nil, "", err
	}
	interrupt := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	id, err = introduce(conn, p)
	if !interrupt() && err == nil {
		err = context.Cause(ctx) // its deadline has passed or will
	}
	if err != nil {
		conn.Close()
		return nil, "", err
	}
	return conn, id, nil
}

// introduce says who this rank is, proves that it knows the secret if there is
// one, and has rank 0 prove the same.
func introduce(conn net.Conn, p *meeting) (id string, err error) {
	e := exam{guest: hello{rank: p.rank, size: p.size, token: p.token}}
	if p.key != nil {
		e.key, e.guests = *p.key, newNonce()
		e.guest.nonce = e.guests
	}
	if _, err := conn.Write([]byte(e.guest.line())); err != nil {
		return "", err
	}
	r := bufio.NewReaderSize(conn, helloMax)
	line, err := hear(r)
	if nonce, ok := parseChallenge(line); ok && err == nil && p.key != nil {
		e.hosts = nonce
		if _, err := conn.Write([]byte(response(e.mac("guest", "")))); err != nil {
			return "", err
		}
		line, err = hear(r)
	}
	w, ok := parseWelcome(line)
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return "", p.nobody("it said " + err.Error())
	case errors.Is(err, errOutOfTurn), err == nil && !ok:
		return "", p.nobody("it said " + excerpt(line))
	case err != nil:
		return "", err
	case w.why != nil:
		return "", fmt.Errorf("launch: rank 0 at %s: %w: %w", p.addr, ErrRefused, w.why)
	case p.key == nil:
		return "", nil
	case e.hosts == "" || w.id == "" || !e.passes("host", w.id, w.mac):
		return "", p.nobody("it does not know the secret in the file of " + SecretFileEnv)
	}
	return w.id, nil
}

// nobody is the error for what answers and is not rank 0.
func (p *meeting) nobody(why string) error {
	return fmt.Errorf("launch: %w: what answers at %s (MASTER_ADDR and MASTER_PORT) is not rank 0 of a Banyan job: %s",
		ErrProtocol, p.addr, why)
}
