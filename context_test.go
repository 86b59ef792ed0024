package banyan_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
)

// alone is a world of one, whose waits are real.
func alone(t *testing.T) *banyan.Comm {
	w, err := banyan.Init()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.Finalize()) })
	return w.Comm()
}

func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

// A receive that waits when its context ends is taken back: the message that
// comes later is the next receive's.
func TestRecvContextIsTakenBack(t *testing.T) {
	c := alone(t)
	buf := []byte("as it was")
	_, err := c.RecvContext(soon(t), buf, 0, tagTested)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	_, err = c.ProbeContext(soon(t), banyan.AnySource, banyan.AnyTag)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, c.Send([]byte("later"), 0, tagTested))
	st, err := c.ProbeContext(t.Context(), 0, tagTested)
	require.NoError(t, err)
	require.Equal(t, 5, st.Count)
	require.Equal(t, "as it was", string(buf))
	_, err = c.Recv(buf, 0, tagTested)
	require.NoError(t, err)
	require.Equal(t, "later was", string(buf))
}

// The wait for a send ends with the context; the send goes on.
func TestWaitContextLeavesSendsUnderWay(t *testing.T) {
	c := alone(t)
	r := c.Issend(pattern(0, 100), 0, tagTested)
	_, err := r.WaitContext(soon(t))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	_, done, _ := r.Test()
	require.False(t, done)
	require.NoError(t, expect(c, 0, tagTested, 100))
	_, err = r.WaitContext(t.Context())
	require.NoError(t, err)
}

// What SendContext has begun may be received after the context's end.
func TestSendContextGoesOn(t *testing.T) {
	c := alone(t)
	const size = 1 << 20
	for tag := range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		go func() { // once it has been begun
			_, _ = c.Probe(0, tag)
			cancel()
		}()
		require.ErrorIs(t, c.SendContext(ctx, pattern(0, size), 0, tag), context.Canceled)
		require.NoError(t, c.SendContext(t.Context(), pattern(0, 8), 0, tag))
	}
	for tag := range 3 {
		require.NoError(t, expect(c, 0, tag, size))
		require.NoError(t, expect(c, 0, tag, 8))
	}
}

// A context that has ended starts nothing.
func TestEndedContextStartsNothing(t *testing.T) {
	c := alone(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, c.SendContext(ctx, []byte("x"), 0, tagTested), context.Canceled)
	_, found, err := c.Iprobe(0, tagTested)
	require.NoError(t, err)
	require.False(t, found)
	require.NoError(t, c.Send([]byte("x"), 0, tagTested))
	_, err = c.RecvContext(ctx, make([]byte, 1), 0, tagTested)
	require.ErrorIs(t, err, context.Canceled)
	_, err = c.ProbeContext(ctx, 0, tagTested)
	require.ErrorIs(t, err, context.Canceled)
	_, err = c.Recv(make([]byte, 1), 0, tagTested)
	require.NoError(t, err)
}

// Contexts that end at the moment of the match: each receive either has its
// message or leaves it to the next.
func TestContextsEndWhileMessagesCome(t *testing.T) {
	c := alone(t)
	const n = 2000
	go func() {
		for i := range n {
			_ = c.Send([]byte{byte(i), byte(i >> 8)}, 0, tagTested)
		}
	}()
	buf := make([]byte, 2)
	for i := 0; i < n; {
		ctx, cancel := context.WithCancel(t.Context())
		go cancel()
		_, err := c.RecvContext(ctx, buf, 0, tagTested)
		cancel()
		if errors.Is(err, context.Canceled) {
			continue
		}
		require.NoError(t, err)
		require.Equal(t, []byte{byte(i), byte(i >> 8)}, buf)
		i++
	}
}

// A context that cannot end costs no allocation.
func TestNoAllocationWithBackground(t *testing.T) {
	c := alone(t)
	buf := make([]byte, 8)
	ctx := context.Background()
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		if err := c.SendContext(ctx, buf, 0, 1); err != nil {
			t.Error(err)
		}
		if _, err := c.ProbeContext(ctx, 0, 1); err != nil {
			t.Error(err)
		}
		if _, err := c.RecvContext(ctx, buf, 0, 1); err != nil {
			t.Error(err)
		}
		if _, err := c.Isend(buf, banyan.ProcNull, 1).WaitContext(ctx); err != nil {
			t.Error(err)
		}
	}))
}

// Once a message has been matched the context no longer takes it away; a death
// is reported as without a context.
func TestContextInASimulation(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	require.NoError(t, withDeath(3, func(c *banyan.Comm) error {
		const size = 1 << 20
		if c.Rank() == 1 {
			if err := await(c, 0); err != nil {
				return err
			}
			r := c.Isend(pattern(1, size), 0, tagTested)
			cancel() // after rank 0 began to wait, and without the message
			_, err := r.Wait()
			return err
		}
		if err := signal(c, 1); err != nil {
			return err
		}
		buf := make([]byte, size)
		_, err := c.RecvContext(ctx, buf, 1, 7)
		if !errors.Is(err, context.Canceled) {
			return fmt.Errorf("nobody sends: %v", err)
		}
		if _, err := c.Recv(buf, 1, tagTested); err != nil || !bytes.Equal(buf, pattern(1, size)) {
			return fmt.Errorf("the message: %w", err)
		}
		other, stop := context.WithCancel(t.Context())
		defer stop()
		_, err = c.RecvContext(other, buf, 2, 7)
		return isDead(err, 2)
	}))
	cancel()
}
