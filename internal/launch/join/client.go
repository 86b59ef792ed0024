package join

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"syscall"

	"github.com/banyan-hpc/banyan/internal/launch/pmi"
)

// client is this process's connection to its launcher. Calls are made one at a time, but for
// abort, and for a barrier that has been entered, beside which others may be made if the launcher
// is Banyan's own.
type client struct {
	conn    pmi.Conn
	replies *replies
	kvs     string // name of the key-value space, which is the job's
	keyMax  int    // bytes of a key and of a value, terminator included
	valMax  int
	mapping string

	mu     sync.Mutex
	owed   bool  // a barrier was given up: its reply may come, or never
	broken error // why no further request can be made; nil as long as one can
}

// newClient performs the opening exchange on conn, which it owns: it is closed
// when the exchange fails.
func newClient(ctx context.Context, conn pmi.Conn) (*client, error) {
	c := &client{conn: conn, replies: newReplies(conn)}
	if err := c.open(ctx); err != nil {
		_ = c.shut()
		return nil, err
	}
	return c, nil
}

func (c *client) open(ctx context.Context) error {
	m, err := c.call(ctx, "response_to_init", "init", "pmi_version", "1", "pmi_subversion", "1")
	if err != nil {
		return err
	}
	if m.Get("pmi_version") != "1" {
		return c.nonsense(fmt.Errorf("version %s offered, version 1 wanted", pmi.Excerpt(m.Get("pmi_version"))))
	}
	if m, err = c.call(ctx, "maxes", "get_maxes"); err != nil {
		return err
	}
	if c.keyMax, err = m.Number("keylen_max"); err != nil {
		return c.nonsense(err)
	}
	if c.valMax, err = m.Number("vallen_max"); err != nil {
		return c.nonsense(err)
	}
	if m, err = c.call(ctx, "my_kvsname", "get_my_kvsname"); err != nil {
		return err
	}
	if c.kvs = m.Get("kvsname"); c.kvs == "" {
		return c.nonsense(errors.New("a key-value space without a name"))
	}
	if c.room() < minRoom || c.keyMax <= wireKeyMax {
		return c.nonsense(fmt.Errorf("keylen_max=%d, vallen_max=%d and a name of %d bytes leave no room for values",
			c.keyMax, c.valMax, len(c.kvs)))
	}
	c.mapping, err = c.get(ctx, pmi.MappingKey)
	if errors.Is(err, pmi.ErrNotFound) {
		return nil
	}
	return err
}

// room is the number of bytes that one value may have, so that the request
// fits a line of the original implementation.
func (c *client) room() int {
	overhead := len(pmi.Encode("put", "kvsname", c.kvs, "key", "", "value", "")) + wireKeyMax
	return min(c.valMax-1, pmi.RequestMax-overhead)
}

// call sends a request and returns the reply, whose command must be want. A
// result code other than 0 is an error.
func (c *client) call(ctx context.Context, want, cmd string, kv ...string) (pmi.Message, error) {
	m, err := c.exchange(ctx, want, cmd, kv...)
	if err == nil && m.Failed() {
		err = fmt.Errorf("launch: %s: %w: rc=%s, %s", cmd, pmi.ErrRefused, m.Get("rc"), pmi.Excerpt(m.Get("msg")))
	}
	return m, err
}

// exchange is call without a look at the result code.
func (c *client) exchange(ctx context.Context, want, cmd string, kv ...string) (pmi.Message, error) {
	if err := c.ready(ctx, cmd); err != nil {
		return pmi.Message{}, err
	}
	line, err := c.roundTrip(ctx, pmi.Encode(cmd, kv...))
	return c.understand(ctx, want, cmd, line, err)
}

// ready says why a request cannot be made.
func (c *client) ready(ctx context.Context, cmd string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken != nil {
		return c.broken
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("launch: %s: %w", cmd, context.Cause(ctx))
	}
	return nil
}

// understand makes a message of the reply to a request.
func (c *client) understand(ctx context.Context, want, cmd, line string, err error) (pmi.Message, error) {
	if err != nil {
		return pmi.Message{}, c.fail(ctx, cmd, err)
	}
	m, err := pmi.Parse(line)
	if err == nil && m.Cmd != want {
		err = fmt.Errorf("cmd=%s answered by %s, cmd=%s expected", cmd, pmi.Excerpt(line), want)
	}
	if err != nil {
		return pmi.Message{}, c.nonsense(err)
	}
	return m, nil
}

// roundTrip writes one line, if there is one, and reads one.
func (c *client) roundTrip(ctx context.Context, line string) (string, error) {
	place := &c.replies.request
	reply := c.replies.expect(place)
	if err := write(ctx, c.conn, line); err != nil {
		return "", err
	}
	return c.replies.take(ctx, place, reply)
}

// fail classifies an error of the connection. No request can follow: the reply
// to the one that failed may still come.
func (c *client) fail(ctx context.Context, cmd string, err error) error {
	if errors.Is(err, bufio.ErrBufferFull) {
		return c.nonsense(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() != nil:
		c.owed = cmd == "barrier_in"
		c.broken = fmt.Errorf("launch: an earlier request (%s) was given up: %w", cmd, context.Cause(ctx))
		return fmt.Errorf("launch: %s: %w", cmd, context.Cause(ctx))
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.ErrClosedPipe),
		errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNRESET):
		c.broken = fmt.Errorf("launch: %s: %w (%w)", cmd, pmi.ErrLauncherGone, err)
	default:
		c.broken = fmt.Errorf("launch: %s: connection to the launcher: %w", cmd, err)
	}
	return c.broken
}

// nonsense ends the use of a launcher that does not keep to the protocol.
func (c *client) nonsense(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.broken = fmt.Errorf("launch: %w: %w", pmi.ErrProtocol, err)
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
	if m.Failed() {
		return "", fmt.Errorf("launch: key %s: %w", key, pmi.ErrNotFound)
	}
	return m.Get("value"), nil
}

// enter enters the barrier. The caller calls leaveBarrier.
func (c *client) enter(ctx context.Context) (chan heard, error) {
	const cmd = "barrier_in"
	if err := c.ready(ctx, cmd); err != nil {
		return nil, err
	}
	round := c.replies.expect(&c.replies.round)
	if err := write(ctx, c.conn, pmi.Encode(cmd)); err != nil {
		return nil, c.fail(ctx, cmd, err)
	}
	return round, nil
}

// leaveBarrier returns when all ranks have entered it, or a *MissingError when it
// completed without some.
func (c *client) leaveBarrier(ctx context.Context, round chan heard) error {
	line, err := c.replies.take(ctx, &c.replies.round, round)
	m, err := c.understand(ctx, "barrier_out", "barrier_in", line, err)
	if err != nil {
		return err
	}
	missing, err := pmi.DecodeLost(m)
	switch {
	case err != nil:
		return c.nonsense(err)
	case missing != nil:
		return missing
	case m.Failed():
		return fmt.Errorf("launch: barrier: %w: rc=%s, %s", pmi.ErrRefused, m.Get("rc"), pmi.Excerpt(m.Get("msg")))
	}
	return nil
}

// abort has no reply, so it may be called while another request is under way.
func (c *client) abort(code int, msg string) error {
	line := pmi.Encode("abort", "exitcode", strconv.Itoa(code), "message", pmi.OneWord(msg, 200))
	if _, err := io.WriteString(c.conn, line); err != nil {
		return fmt.Errorf("launch: abort: %w (%w)", pmi.ErrLauncherGone, err)
	}
	return nil
}

// shut closes the connection.
func (c *client) shut() error {
	err := c.conn.Close()
	c.replies.stop()
	return err
}

// leave says goodbye from within a barrier, whose reply may come first.
func (c *client) leave(ctx context.Context) error {
	line, err := c.roundTrip(ctx, pmi.Encode("finalize"))
	for range 2 {
		if err != nil {
			return c.fail(ctx, "finalize", err)
		}
		m, perr := pmi.Parse(line)
		switch {
		case perr != nil:
			return c.nonsense(perr)
		case m.Cmd == "finalize_ack":
			return nil
		}
		line, err = c.roundTrip(ctx, "")
	}
	return c.nonsense(fmt.Errorf("cmd=finalize answered by %s", pmi.Excerpt(line)))
}

// close says goodbye. A launcher that is gone needs none.
func (c *client) close(ctx context.Context) (err error) {
	c.mu.Lock()
	owed := c.owed
	if owed {
		c.broken = nil
	}
	c.mu.Unlock()
	if owed {
		err = c.leave(ctx)
	} else {
		_, err = c.call(ctx, "finalize_ack", "finalize")
	}
	if cerr := c.shut(); err == nil && cerr != nil {
		err = fmt.Errorf("launch: finalize: %w", cerr)
	}
	if errors.Is(err, pmi.ErrLauncherGone) {
		return nil
	}
	return err
}
