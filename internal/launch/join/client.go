package join

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/banyan-hpc/banyan/internal/launch/pmi"
)

// client is this process's connection to its launcher. It makes one request at a time. Beside it
// there may be an abort, and a barrier if the launcher is Banyan's own.
type client struct {
	conn    pmi.Conn
	lines   *lines
	kvs     string // name of the key-value space, which is the job's
	keyMax  int    // bytes of a key and of a value, terminator included
	valMax  int
	mapping string

	mu     sync.Mutex
	owed   bool  // a barrier was given up: its reply may come, or never
	broken error // why no further request can be made, or nil
}

// newClient performs the opening exchange on conn, which it owns: it closes conn when the exchange
// fails.
func newClient(ctx context.Context, conn pmi.Conn) (*client, error) {
	c := &client{conn: conn, lines: newLines(conn)}
	if err := c.open(ctx); err != nil {
		_ = c.shut()
		return nil, err
	}
	return c, nil
}

// open negotiates the version and learns the maxima, the job's name and the mapping.
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

// room is the number of bytes that one value may have, so that the request fits a line of the
// original implementation.
func (c *client) room() int {
	overhead := len(pmi.Encode("put", "kvsname", c.kvs, "key", "", "value", "")) + wireKeyMax
	return min(c.valMax-1, pmi.RequestMax-overhead)
}

// call sends a request and returns the reply, whose command must be want. A result code other than
// 0 is an error.
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
	if err := write(ctx, c.conn, pmi.Encode(cmd, kv...)); err != nil {
		return pmi.Message{}, c.fail(ctx, cmd, err)
	}
	line, err := c.lines.take(ctx, c.lines.replies, nil)
	return c.understand(ctx, want, cmd, line, err)
}

// ready returns why a request cannot be made.
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

// understand parses the reply to a request.
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

// fail classifies an error of the connection. No request can follow: the reply to the failed one
// may still come.
func (c *client) fail(ctx context.Context, cmd string, err error) error {
	if errors.Is(err, bufio.ErrBufferFull) || errors.Is(err, errUnasked) {
		return c.nonsense(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() != nil {
		c.owed = cmd == "barrier_in"
		c.broken = fmt.Errorf("launch: an earlier request (%s) was given up: %w", cmd, context.Cause(ctx))
		return fmt.Errorf("launch: %s: %w", cmd, context.Cause(ctx))
	}
	c.broken = fmt.Errorf("launch: %s: %w (%w)", cmd, pmi.ErrLauncherGone, err)
	return c.broken
}

// nonsense ends the use of a launcher that breaks the protocol.
func (c *client) nonsense(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.broken = fmt.Errorf("launch: %w: %w", pmi.ErrProtocol, err)
	return c.broken
}

// put publishes a value.
func (c *client) put(ctx context.Context, key, value string) error {
	_, err := c.call(ctx, "put_result", "put", "kvsname", c.kvs, "key", key, "value", value)
	return err
}

// get returns a published value, or an error of class ErrNotFound.
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

// getRange returns the values of consecutive keys, as many as the launcher puts into one reply; ""
// for those without value.
func (c *client) getRange(ctx context.Context, prefix string, first, count int) ([]string, error) {
	m, err := c.call(ctx, pmi.RangeReply, pmi.RangeRequest, "kvsname", c.kvs, "prefix", prefix,
		"first", strconv.Itoa(first), "count", strconv.Itoa(count))
	if err != nil {
		return nil, err
	}
	values := strings.Split(m.Get("values"), ",")
	if len(values) > count {
		return nil, c.nonsense(fmt.Errorf("%d values, %d wanted", len(values), count))
	}
	return values, nil
}

// enter enters the barrier. The caller calls leaveBarrier.
func (c *client) enter(ctx context.Context) error {
	const cmd = "barrier_in"
	if err := c.ready(ctx, cmd); err != nil {
		return err
	}
	if err := write(ctx, c.conn, pmi.Encode(cmd)); err != nil {
		return c.fail(ctx, cmd, err)
	}
	return nil
}

// leaveBarrier returns when all ranks have entered the barrier, or a *MissingError when it
// completed without some. alone: no other request is made meanwhile, so any other line breaks the
// protocol.
func (c *client) leaveBarrier(ctx context.Context, alone bool) error {
	var others <-chan string
	if alone {
		others = c.lines.replies
	}
	line, err := c.lines.take(ctx, c.lines.barriers, others)
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

// abort has no reply, so it may be called during another request.
func (c *client) abort(code int, msg string) error {
	line := pmi.Encode("abort", "exitcode", strconv.Itoa(code), "message", pmi.OneWord(msg, 200))
	if _, err := io.WriteString(c.conn, line); err != nil {
		return fmt.Errorf("launch: abort: %w (%w)", pmi.ErrLauncherGone, err)
	}
	return nil
}

// shut closes the connection. Requests under way end with ErrLauncherGone.
func (c *client) shut() error { return c.conn.Close() }

// close finalizes and closes the connection. The end of the launcher is no error.
func (c *client) close(ctx context.Context) error {
	c.mu.Lock()
	if c.owed {
		c.broken = nil // the late end of the barrier is no reply to another request
	}
	c.mu.Unlock()
	_, err := c.call(ctx, "finalize_ack", "finalize")
	if cerr := c.shut(); err == nil && cerr != nil {
		err = fmt.Errorf("launch: finalize: %w", cerr)
	}
	if errors.Is(err, pmi.ErrLauncherGone) {
		return nil
	}
	return err
}
