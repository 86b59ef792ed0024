package messages

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// alone is a world of one rank, in real time.
func alone(t *testing.T) *banyan.Comm {
	w, err := banyan.Init()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.Finalize()) })
	return w.Comm()
}

// with puts requests with a context in place of others.
func with(ctx context.Context, reqs []banyan.Request) []banyan.Request {
	for i, r := range reqs {
		reqs[i] = r.WithContext(ctx)
	}
	return reqs
}

func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

// untilUnderWay returns a context that ends when a message with a tag is under way. A context that
// has ended before would start nothing.
func untilUnderWay(t *testing.T, c *banyan.Comm, tag int) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		if _, err := c.Probe(0, tag); err != nil {
			t.Error(err)
		}
	}()
	return ctx
}

// A receive whose context ends is cancelled. The next receive gets the message that arrives later.
func TestRecvIsTakenBack(t *testing.T) {
	c := alone(t)
	buf := []byte("as it was")
	_, err := c.WithContext(soon(t)).Recv(buf, 0, tagTested)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	_, err = c.WithContext(soon(t)).Probe(banyan.AnySource, banyan.AnyTag)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, c.Send([]byte("later"), 0, tagTested))
	st, err := c.WithContext(t.Context()).Probe(0, tagTested)
	require.NoError(t, err)
	require.Equal(t, 5, st.Count)
	require.Equal(t, "as it was", string(buf))
	_, err = c.Recv(buf, 0, tagTested)
	require.NoError(t, err)
	require.Equal(t, "later was", string(buf))
}

// The wait for a send ends with the context; the send continues.
func TestWaitLeavesSendsUnderWay(t *testing.T) {
	c := alone(t)
	r := c.Issend(ranktest.Pattern(0, 100), 0, tagTested)
	_, err := r.WithContext(soon(t)).Wait()
	require.ErrorIs(t, err, context.DeadlineExceeded)
	_, done, _ := r.Test()
	require.False(t, done)
	require.NoError(t, ranktest.ExpectPattern(c, 0, tagTested, 100))
	_, err = r.WithContext(t.Context()).Wait()
	require.NoError(t, err)
}

// The message of a Send whose context ends can be received after the context's end.
func TestSendGoesOn(t *testing.T) {
	c := alone(t)
	const size = 1 << 20
	for tag := range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		go func() { // after the send has started
			_, _ = c.Probe(0, tag)
			cancel()
		}()
		require.ErrorIs(t, c.WithContext(ctx).Send(ranktest.Pattern(0, size), 0, tag), context.Canceled)
		require.NoError(t, c.WithContext(t.Context()).Send(ranktest.Pattern(0, 8), 0, tag))
	}
	for tag := range 3 {
		require.NoError(t, ranktest.ExpectPattern(c, 0, tag, size))
		require.NoError(t, ranktest.ExpectPattern(c, 0, tag, 8))
	}
}

// A context that has ended starts nothing.
func TestEndedContextStartsNothing(t *testing.T) {
	c := alone(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, c.WithContext(ctx).Send([]byte("x"), 0, tagTested), context.Canceled)
	_, found, err := c.Iprobe(0, tagTested)
	require.NoError(t, err)
	require.False(t, found)
	require.NoError(t, c.Send([]byte("x"), 0, tagTested))
	_, err = c.WithContext(ctx).Recv(make([]byte, 1), 0, tagTested)
	require.ErrorIs(t, err, context.Canceled)
	_, err = c.WithContext(ctx).Probe(0, tagTested)
	require.ErrorIs(t, err, context.Canceled)
	_, err = c.Recv(make([]byte, 1), 0, tagTested)
	require.NoError(t, err)
}

// Contexts end at the moment of the match. Each receive has its message or leaves it to the next
// receive.
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
		_, err := c.WithContext(ctx).Recv(buf, 0, tagTested)
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
	allocations := func(on func() *banyan.Comm) float64 {
		return testing.AllocsPerRun(1000, func() {
			if err := on().Send(buf, 0, 1); err != nil {
				t.Error(err)
			}
			if _, err := on().Probe(0, 1); err != nil {
				t.Error(err)
			}
			if _, err := on().Recv(buf, 0, 1); err != nil {
				t.Error(err)
			}
			if _, err := on().Isend(buf, banyan.ProcNull, 1).Wait(); err != nil {
				t.Error(err)
			}
		})
	}
	want := 0.0
	if ranktest.Debugs() { // as many as without a context
		want = allocations(func() *banyan.Comm { return c })
	}
	require.Equal(t, want, allocations(func() *banyan.Comm { return c.WithContext(ctx) }))
}

// After the match the context no longer cancels the receive. A death is reported as without a
// context.
func TestContextInASimulation(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	require.NoError(t, ranktest.WithDeath(3, func(c *banyan.Comm) error {
		const size = 1 << 20
		if c.Rank() == 1 {
			if err := await(c, 0); err != nil {
				return err
			}
			r := c.Isend(ranktest.Pattern(1, size), 0, tagTested)
			cancel() // after rank 0 started to wait without the message
			_, err := r.Wait()
			return err
		}
		if err := signal(c, 1); err != nil {
			return err
		}
		buf := make([]byte, size)
		_, err := c.WithContext(ctx).Recv(buf, 1, 7)
		if !errors.Is(err, context.Canceled) {
			return fmt.Errorf("no rank sends: %v", err)
		}
		if _, err := c.Recv(buf, 1, tagTested); err != nil || !bytes.Equal(buf, ranktest.Pattern(1, size)) {
			return fmt.Errorf("the message: %w", err)
		}
		other, stop := context.WithCancel(t.Context())
		defer stop()
		_, err = c.WithContext(other).Recv(buf, 2, 7)
		return ranktest.WantFailed(err, 2)
	}))
	cancel()
}

// An Mprobe whose context ends has taken no message; one that finds a message returns it.
func TestMprobeWithContext(t *testing.T) {
	c := alone(t)
	_, err := c.WithContext(soon(t)).Mprobe(0, tagTested)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, c.Send([]byte("for the probe"), 0, tagTested))
	m, err := c.WithContext(t.Context()).Mprobe(banyan.AnySource, tagTested)
	require.NoError(t, err)
	_, found, err := c.Iprobe(0, tagTested)
	require.NoError(t, err)
	require.False(t, found, "it has been taken out")
	buf := make([]byte, m.Status().Count)
	_, err = m.Recv(buf)
	require.NoError(t, err)
	require.Equal(t, "for the probe", string(buf))
	_, err = c.WithContext(t.Context()).Mprobe(9, tagTested)
	require.ErrorIs(t, err, banyan.ErrArgument)
	none, err := c.WithContext(t.Context()).Mprobe(banyan.ProcNull, tagTested)
	require.NoError(t, err)
	require.Equal(t, banyan.ProcNull, none.Status().Source)
}

func TestSeveralRequestsWithContexts(t *testing.T) {
	c := alone(t)
	in := make([]byte, 100)
	send, recv := c.Issend(ranktest.Pattern(0, 100), 0, tagTested), c.Irecv(in, 0, tagTested+1)
	reqs := []banyan.Request{send, {}, recv}
	i, _, err := banyan.WaitAny(with(soon(t), reqs))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Equal(t, -1, i)
	out, err := banyan.WaitSome(with(soon(t), reqs), nil)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Empty(t, out)
	for i, active := range []bool{true, false, true} {
		_, done, err := reqs[i].Test()
		require.NoError(t, err)
		require.Equal(t, !active, done, "all are as they were")
	}

	require.NoError(t, c.Send(ranktest.Pattern(0, 100), 0, tagTested+1))
	i, st, err := banyan.WaitAny(with(t.Context(), reqs))
	require.NoError(t, err)
	require.Equal(t, 2, i)
	require.Equal(t, 100, st.Count)
	require.Equal(t, ranktest.Pattern(0, 100), in)

	// The receive is cancelled, the send stays.
	reqs[2] = c.Irecv(in, 0, tagTested+2)
	require.ErrorIs(t, banyan.WaitAll(with(soon(t), reqs)), context.DeadlineExceeded)
	require.NotZero(t, reqs[0])
	require.Equal(t, []banyan.Request{{}, {}}, reqs[1:])
	require.NoError(t, ranktest.ExpectPattern(c, 0, tagTested, 100))
	out, err = banyan.WaitSome(with(t.Context(), reqs), nil)
	require.NoError(t, err)
	require.Len(t, out, 1)
	require.NoError(t, banyan.WaitAll(with(t.Context(), reqs)))

	p := c.WithContext(soon(t)).SsendInit(ranktest.Pattern(0, 10), 0, tagTested)
	p.Start()
	_, err = p.Wait()
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, ranktest.ExpectPattern(c, 0, tagTested, 10))
	_, err = p.Wait()
	require.NoError(t, err)
	require.NoError(t, p.Free())
}

func TestInitWithContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := banyan.Init(banyan.WithContext(ctx))
	require.ErrorIs(t, err, context.Canceled)
}

func TestSendrecvWithContext(t *testing.T) {
	c := alone(t)
	in := make([]byte, 100)
	st, err := c.WithContext(t.Context()).Sendrecv(ranktest.Pattern(0, 50), 0, tagTested, in, 0, tagTested)
	require.NoError(t, err)
	require.Equal(t, 50, st.Count)
	_, err = c.WithContext(untilUnderWay(t, c, tagTested)).Sendrecv(ranktest.Pattern(0, 50), 0, tagTested, in, 0,
		tagTested+1)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, ranktest.ExpectPattern(c, 0, tagTested, 50), "what was sent has been sent")
	_, found, err := c.Iprobe(banyan.AnySource, banyan.AnyTag)
	require.NoError(t, err)
	require.False(t, found)
	require.ErrorIs(t, c.WithContext(untilUnderWay(t, c, tagTested)).Ssend(ranktest.Pattern(0, 50), 0, tagTested),
		context.Canceled)
	require.NoError(t, ranktest.ExpectPattern(c, 0, tagTested, 50), "it stays under way")
	_, err = c.WithContext(t.Context()).Sendrecv(nil, 7, 0, nil, 0, tagTested)
	require.ErrorIs(t, err, banyan.ErrArgument)
}
