package launch

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"
	"time"
)

// connection is what both sides of the protocol need of a socket: the
// descriptor that a launcher left, a TCP connection, a pipe within the process.
type connection interface {
	io.ReadWriteCloser
	SetDeadline(t time.Time) error
}

// client is this process's connection to its launcher. Only abort may be
// called beside another call.
type client struct {
	conn    connection
	r       *bufio.Reader
	kvs     string // name of the key-value space, which is the job's
	keyMax  int    // bytes of a key and of a value, terminator included
	valMax  int
	owed    bool  // a barrier was given up: its reply may come, or never
	broken  error // why no further request can be made; nil as long as one can
	mapping string
}

// newClient performs the opening exchange on conn, which it owns: it is closed
// when the exchange fails.
func newClient(ctx context.Context, conn connection) (*client, error) {
	c := &client{conn: conn, r: bufio.NewReaderSize(conn, clientLineMax)}
	if err := c.open(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	return c, nil
}

func (c *client) open(ctx context.Context) error {
	m, err := c.call(ctx, "response_to_init", "init", "pmi_version", "1", "pmi_subversion", "1")
	if err != nil {
		return err
	}
	if m.get("pmi_version") != "1" {
		return c.nonsense(fmt.Errorf("version %s offered, version 1 wanted", excerpt(m.get("pmi_version"))))
	}
	if m, err = c.call(ctx, "maxes", "get_maxes"); err != nil {
		return err
	}
	if c.keyMax, err = m.number("keylen_max"); err != nil {
		return c.nonsense(err)
	}
	if c.valMax, err = m.number("vallen_max"); err != nil {
		return c.nonsense(err)
	}
	if m, err = c.call(ctx, "my_kvsname", "get_my_kvsname"); err != nil {
		return err
	}
	if c.kvs = m.get("kvsname"); c.kvs == "" {
		return c.nonsense(errors.New("a key-value space without a name"))
	}
	if c.room() < minRoom || c.keyMax <= wireKeyMax {
		return c.nonsense(fmt.Errorf("keylen_max=%d, vallen_max=%d and a name of %d bytes leave no room for values",
			c.keyMax, c.valMax, len(c.kvs)))
	}
	c.mapping, err = c.get(ctx, mappingKey)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// room is the number of bytes that one value may have, so that the request
// fits a line of the original implementation.
func (c *client) room() int {
	overhead := len(encode("put", "kvsname", c.kvs, "key", "", "value", "")) + wireKeyMax
	return min(c.valMax-1, requestMax-overhead)
}

// call sends a request and returns the reply, whose command must be want. A
// result code other than 0 is an error.
func (c *client) call(ctx context.Context, want, cmd string, kv ...string) (message, error) {
	m, err := c.exchange(ctx, want, cmd, kv...)
	if err == nil && m.failed() {
		err = fmt.Errorf("launch: %s: %w: rc=%s, %s", cmd, ErrRefused, m.get("rc"), excerpt(m.get("msg")))
	}
	return m, err
}

// exchange is call without a look at the result code.
func (c *client) exchange(ctx context.Context, want, cmd string, kv ...string) (message, error) {
	if c.broken != nil {
		return message{}, c.broken
	}
	if err := ctx.Err(); err != nil {
		return message{}, fmt.Errorf("launch: %s: %w", cmd, context.Cause(ctx))
	}
	line, err := c.roundTrip(ctx, encode(cmd, kv...))
	if err != nil {
		return message{}, c.fail(ctx, cmd, err)
	}
	m, err := parse(line)
	if err == nil && m.cmd != want {
		err = fmt.Errorf("cmd=%s answered by %s, cmd=%s expected", cmd, excerpt(line), want)
	}
	if err != nil {
		return message{}, c.nonsense(err)
	}
	return m, nil
}

// roundTrip writes one line and reads one. When ctx ends first the deadline
// of the descriptor interrupts both.
func (c *client) roundTrip(ctx context.Context, line string) (string, error) {
	fired := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(fired)
		_ = c.conn.SetDeadline(time.Unix(1, 0)) // fails only when closed, and then the calls end by themselves
	})
	defer func() {
		if !stop() {
			<-fired
			_ = c.conn.SetDeadline(time.Time{})
		}
	}()
	if _, err := io.WriteString(c.conn, line); err != nil {
		return "", err
	}
	return readLine(c.r)
}

// fail classifies an error of the connection. No request can follow: the reply
// to the one that failed may still come.
func (c *client) fail(ctx context.Context, cmd string, err error) error {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() != nil:
		c.owed = cmd == "barrier_in"
		c.broken = fmt.Errorf("launch: an earlier request (%s) was given up: %w", cmd, context.Cause(ctx))
		return fmt.Errorf("launch: %s: %w", cmd, context.Cause(ctx))
	case errors.Is(err, bufio.ErrBufferFull):
		return c.nonsense(err)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.ErrClosedPipe),
		errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNRESET):
		c.broken = fmt.Errorf("launch: %s: %w (%w)", cmd, ErrLauncherGone, err)
	default:
		c.broken = fmt.Errorf("launch: %s: connection to the launcher: %w", cmd, err)
	}
	return c.broken
}

// nonsense ends the use of a launcher that does not keep to the protocol.
func (c *client) nonsense(err error) error {
	c.broken = fmt.Errorf("launch: %w: %w", ErrProtocol, err)
	return c.broken
}

func (c *client) put(ctx context.Context, key, value string) error {
	_, err := c.call(ctx, "put_result", "put", "kvsname", c.kvs, "key", key, "value", value)
	return err
}

func (c *client) get(ctx context.Context, key string) (string, error) {
	m, err := c.exchange(ctx, "get_result", "get", "kvsname", c.kvs, "key", key)
	if err != nil {
		return "", err
	}
	if m.failed() {
		return "", fmt.Errorf("launch: key %s: %w", key, ErrNotFound)
	}
	return m.get("value"), nil
}

// barrier returns when all ranks have entered it, or a *MissingError when it
// completed without some.
func (c *client) barrier(ctx context.Context) error {
	m, err := c.exchange(ctx, "barrier_out", "barrier_in")
	if err != nil {
		return err
	}
	missing, err := decodeLost(m)
	switch {
	case err != nil:
		return c.nonsense(err)
	case missing != nil:
		return missing
	case m.failed():
		return fmt.Errorf("launch: barrier: %w: rc=%s, %s", ErrRefused, m.get("rc"), excerpt(m.get("msg")))
	}
	return nil
}

// abort has no reply, so it may be called while another request is under way.
func (c *client) abort(code int, msg string) error {
	line := encode("abort", "exitcode", strconv.Itoa(code), "message", oneWord(msg, 200))
	if _, err := io.WriteString(c.conn, line); err != nil {
		return fmt.Errorf("launch: abort: %w (%w)", ErrLauncherGone, err)
	}
	return nil
}

// leave says goodbye from within a barrier, whose reply may come first.
func (c *client) leave(ctx context.Context) error {
	line, err := c.roundTrip(ctx, encode("finalize"))
	for range 2 {
		if err != nil {
			return c.fail(ctx, "finalize", err)
		}
		m, perr := parse(line)
		switch {
		case perr != nil:
			return c.nonsense(perr)
		case m.cmd == "finalize_ack":
			return nil
		}
		line, err = c.roundTrip(ctx, "")
	}
	return c.nonsense(fmt.Errorf("cmd=finalize answered by %s", excerpt(line)))
}

// close says goodbye. A launcher that is gone needs none.
func (c *client) close(ctx context.Context) (err error) {
	if c.owed {
		c.broken = nil
		err = c.leave(ctx)
	} else {
		_, err = c.call(ctx, "finalize_ack", "finalize")
	}
	if cerr := c.conn.Close(); err == nil && cerr != nil {
		err = fmt.Errorf("launch: finalize: %w", cerr)
	}
	if errors.Is(err, ErrLauncherGone) {
		return nil
	}
	return err
}
