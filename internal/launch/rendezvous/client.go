package rendezvous

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/banyan-hpc/banyan/internal/launch/pmi"
)

const (
	// Pauses between attempts to reach rank 0, or to find out where it is. Many ranks may ask one
	// name server at once.
	retryPauseMin   = 5 * time.Millisecond
	retryPauseMax   = 250 * time.Millisecond
	resolvePauseMax = time.Second
	// warnAfter is the time after which a start-up reports that it waits, unless a quarter of its
	// limit is less.
	warnAfter = 5 * time.Second
)

// Connect connects this rank to the others. conn is the rank's connection to rank 0, which serves
// PMI-1 on it. id is the job's name as rank 0 has proved it, "" without a secret. s is the server,
// in rank 0.
func (c *Config) Connect(ctx context.Context, secret *Secret) (conn pmi.Conn, id string, s *Server, err error) {
	if secret != nil {
		key := secret.derive("meeting")
		c.key = &key
	}
	if c.Rank == 0 {
		s, conn, err = newServer(ctx, c)
	} else {
		conn, id, err = dial(ctx, c)
	}
	return conn, id, s, err
}

// Limit bounds the time in which rank 0 has to answer once it has admitted this rank.
func (c *Config) Limit(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, c.timeout, fmt.Errorf("rank 0 at %s has not answered within %v (%s): %w",
		c.Addr, c.timeout, pmi.InitTimeoutEnv, context.DeadlineExceeded))
}

// dial connects to rank 0. It waits until rank 0 listens, for as long as a start-up may take.
func dial(ctx context.Context, c *Config) (conn pmi.Conn, id string, err error) {
	err = c.retry(ctx, "rank 0 at "+c.Addr+" (MASTER_ADDR and MASTER_PORT)", func(ctx context.Context) (bool, error) {
		conn, id, err = c.attempt(ctx)
		return errors.Is(err, pmi.ErrRefused) || errors.Is(err, pmi.ErrProtocol), err
	})
	var late *lateError
	if errors.As(err, &late) {
		why := fmt.Sprintf("has not answered at %s within %v: %v", c.Addr, c.timeout, late.last)
		err = &pmi.MissingError{Lost: []pmi.Lost{{Why: why}}, Total: 1}
	}
	return conn, id, err
}

// lateError: the time for the start-up is over.
type lateError struct{ last error }

func (e *lateError) Error() string { return e.last.Error() }
func (e *lateError) Unwrap() error { return e.last }

// retry calls try until it succeeds, fails with a final error, or the start-up has taken too long
// (then the error is a lateError). After a while it prints to standard error, once, the reason of
// the wait.
func (c *Config) retry(ctx context.Context, what string, try func(context.Context) (final bool, err error)) error {
	limited, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	until, _ := limited.Deadline()
	var last atomic.Pointer[error]
	warning := time.AfterFunc(min(warnAfter, c.timeout/4), func() {
		why := ""
		if err := last.Load(); err != nil {
			why = ": " + (*err).Error()
		}
		fmt.Fprintf(os.Stderr, "banyan: rank %d waits for %s, at most %v (%s)%s\n",
			c.Rank, what, c.timeout, pmi.InitTimeoutEnv, why)
	})
	defer warning.Stop()
	pauseMax := retryPauseMax
	if c.named() {
		pauseMax = resolvePauseMax
	}
	for pause := retryPauseMin; ; pause = min(2*pause, pauseMax) {
		final, err := try(limited)
		if err == nil || final {
			return err
		}
		if last.Load() == nil || time.Now().Before(until) { // the context may not have noticed
			last.Store(&err) // an interrupted attempt explains less than the one before
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

// attempt connects to rank 0 once. An error of class ErrRefused or ErrProtocol is final.
func (c *Config) attempt(ctx context.Context) (_ pmi.Conn, id string, err error) {
	conn, err := c.dialAny(ctx)
	if err != nil {
		return nil, "", err
	}
	interrupt := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	id, err = handshake(conn, c)
	if !interrupt() && err == nil {
		err = context.Cause(ctx) // its deadline has passed or will
	}
	if err != nil {
		conn.Close()
		return nil, "", err
	}
	return conn, id, nil
}

// handshake introduces this rank to rank 0. If there is a secret, both prove that they have it.
func handshake(conn net.Conn, c *Config) (id string, err error) {
	p := proof{client: hello{rank: c.Rank, size: c.Size, token: c.token}}
	if c.key != nil {
		p.key, p.clientNonce = *c.key, newNonce()
		p.client.nonce = p.clientNonce
	}
	if _, err := conn.Write([]byte(p.client.line())); err != nil {
		return "", err
	}
	r := bufio.NewReaderSize(conn, helloMax)
	line, err := readLine(r)
	if nonce, ok := parseChallenge(line); ok && err == nil && c.key != nil {
		p.serverNonce = nonce
		if _, err := conn.Write([]byte(response(p.mac(clientSide, "")))); err != nil {
			return "", err
		}
		line, err = readLine(r)
	}
	v, ok := parseVerdict(line)
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return "", c.notRankZero("it sent " + err.Error())
	case errors.Is(err, errOutOfTurn), err == nil && !ok:
		return "", c.notRankZero("it sent " + pmi.Excerpt(line))
	case err != nil:
		return "", err
	case v.refusal != nil:
		return "", fmt.Errorf("launch: rank 0 at %s: %w: %w", c.Addr, pmi.ErrRefused, v.refusal)
	case c.key == nil:
		return "", nil
	case p.serverNonce == "" || v.id == "" || !p.verify(serverSide, v.id, v.mac):
		return "", c.notRankZero("it does not know the secret in the file of " + SecretFileEnv)
	}
	return v.id, nil
}

// notRankZero is the error for another program at the port.
func (c *Config) notRankZero(why string) error {
	return fmt.Errorf("launch: %w: the program that answers at %s (MASTER_ADDR and MASTER_PORT) is not rank 0 of a Banyan job: %s",
		pmi.ErrProtocol, c.Addr, why)
}
