package p2p

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/host"
	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
)

// aside runs fn as a second activity of the process, when the first one sleeps.
func (e *Engine) aside(fn func()) {
	h := e.p.Host()
	h.Go(func() {
		h.Pause(1_000_000)
		fn()
	})
}

// A request that another activity ends wakes the waiting one: in the simulator a lost wake-up is a
// deadlock.
func TestEndedByAnother(t *testing.T) {
	simulated(t, 1, Limits{}, func(e *Engine, c *Comm) error {
		h := Irecv[Aware](c, nil, 0, 1)
		e.aside(func() { e.Cancel(h) })
		if st, err := e.Wait(h); err != nil || !st.Cancelled {
			return fmt.Errorf("cancelled: %+v, %w", st, err)
		}
		e.aside(e.Close)
		if _, err := Recv[Aware](c, nil, AnySource, 1); !errors.Is(err, ft.ErrClosed) {
			return fmt.Errorf("closed: %w", err)
		}
		return nil
	})
}

// A wait for the turns under way ends although further ones begin and end before its goroutine runs again, also where
// the numbers wrap around.
func TestTurnsPass(t *testing.T) {
	simulated(t, 1, Limits{}, func(e *Engine, c *Comm) error {
		c.ftState = &ftState{turns: 1<<32 - 2, over: 1<<32 - 2}
		e.Lock()
		first := c.TakeTurn()
		e.Unlock()
		e.aside(func() {
			e.Lock()
			defer e.Unlock()
			c.EndTurn(first)
			for range 3 {
				c.EndTurn(c.TakeTurn())
			}
		})
		c.AwaitTurns()
		return nil
	})
}

// Of two goroutines that wait for one request the second gets an error, and so does one that tests
// it, also if the request is complete and the first has not run yet.
func TestTwoWaiters(t *testing.T) {
	simulated(t, 1, Limits{}, func(e *Engine, c *Comm) error {
		h := Irecv[Aware](c, make([]byte, 8), 0, 1)
		verdict := func(err error) error { return err }
		finish := func(st Status, err error) (Status, error) { return st, err }
		wrapped := e.WrapAfter(Irecv[Aware](c, make([]byte, 8), 0, 1), verdict, Handle{}, finish)
		return errors.Join(twoWaiters(e, h, 4), twoWaiters(e, wrapped, 3))
	})
}

// twoWaiters gives the first waiter's error, and one if the others got fewer errors. A test of a wrapped request that is
// not complete gets none.
func twoWaiters(e *Engine, h Handle, errs int) error {
	var others []error
	again := func() {
		_, err := e.Wait(h)
		others = append(others, err)
		if _, done, err := e.Test(h); done || err != nil {
			others = append(others, err)
		}
	}
	e.aside(func() {
		again()
		e.Lock()
		abandoned := e.Abandon(h)
		e.Unlock()
		if abandoned {
			others = append(others, nil)
		}
		e.Cancel(h)
		again()
	})
	if _, err := e.Wait(h); err != nil {
		return fmt.Errorf("the first: %w", err)
	}
	if len(others) != errs {
		return fmt.Errorf("the others: %v", others)
	}
	for _, err := range others {
		if !errors.Is(err, ft.ErrArgument) {
			return fmt.Errorf("the others: %v", others)
		}
	}
	return nil
}

// dyingPeer is a provider whose peer 1 fails at the next poll.
type dyingPeer struct {
	scripted
	polled bool
}

func (m *dyingPeer) Poll(s *fabric.Sink) int {
	if m.polled {
		return 0
	}
	m.polled = true
	s.Down(1, proc.Cause{Kind: proc.Signaled, Code: 9})
	return 1
}

// A wildcard that finds the failure itself, in the one poll before it waits, does not wait.
func TestWildcardThatPollsTheFailure(t *testing.T) {
	for name, op := range map[string]func(c *Comm) error{
		"probe":  func(c *Comm) error { _, err := Probe[Aware](c, AnySource, AnyTag); return err },
		"mprobe": func(c *Comm) error { _, err := Mprobe[Aware](c, AnySource, AnyTag); return err },
		"recv":   func(c *Comm) error { _, err := Recv[Aware](c, nil, AnySource, AnyTag); return err },
	} {
		p := progress.New(progress.Config{
			Host: host.New(host.Config{}), Others: []fabric.Provider{new(dyingPeer)},
			Resolve: func(string, proc.ID) ([]byte, error) { return nil, nil },
		})
		c, err := New(p, true, Limits{}).NewComm("world", WorldGroup(3), 0, 1)
		require.NoError(t, err)
		require.ErrorIs(t, op(c), ft.ErrProcFailed, name)
	}
}

// Under run-through stabilization, with a member known to have failed, the messages of a collective
// end also between living ranks; those of the application do not.
func TestCollectiveMessagesAfterAFailure(t *testing.T) {
	s, e, _ := newScripted(t)
	c, err := e.NewComm("three", WorldGroup(3), 0, 9)
	require.NoError(t, err)
	require.NoError(t, c.SetProfile(RunThrough))
	require.NoError(t, Send[Aware](c.Coll(), nil, 1, 0)) // the link is known
	s.down = 2
	e.poll()
	sent := len(s.sent)
	var failed *ft.ProcFailedError
	for name, op := range map[string]func(c *Comm) error{
		"send":  func(c *Comm) error { return Send[Aware](c, nil, 1, 0) },
		"isend": func(c *Comm) error { _, err := e.Wait(Isend[Aware](c, nil, 1, 0)); return err },
		"recv":  func(c *Comm) error { _, err := Recv[Aware](c, nil, 1, 0); return err },
		"irecv": func(c *Comm) error { _, err := e.Wait(Irecv[Aware](c, nil, 1, 0)); return err },
	} {
		require.ErrorAs(t, op(c.Coll()), &failed, name)
		require.Equal(t, []int{2}, failed.Ranks, name)
	}
	require.Len(t, s.sent, sent, "none was started")
	require.NoError(t, Send[Aware](c, nil, 1, 0))
}

// After Close no operation starts and none waits, aware or not.
func TestClosed(t *testing.T) {
	simulated(t, 2, Limits{Eager: 100}, func(e *Engine, c *Comm) error {
		if c.Rank() == 1 {
			_, err := Recv[Aware](c, make([]byte, 8), 0, 1)
			return err
		}
		if err := Send[Aware](c, make([]byte, 8), 1, 1); err != nil { // the link is known
			return err
		}
		pending := []Handle{
			Irecv[Aware](c, nil, 1, 5), Irecv[Aware](c, nil, AnySource, AnyTag), Isend[Aware](c,
				make([]byte, 5000), 1, 7),
		}
		e.Close()
		for i, h := range pending {
			if _, err := e.Wait(h); !errors.Is(err, ft.ErrClosed) {
				return fmt.Errorf("pending request %d: %v", i, err)
			}
		}
		_, recv := Recv[Unaware](c, nil, 1, 1)
		_, probe := Probe[Unaware](c, 1, 1)
		for i, err := range []error{
			Send[Unaware](c, make([]byte, 8), 1, 1), Send[Aware](c, make([]byte, 8), 1, 1), recv, probe,
		} {
			if !errors.Is(err, ft.ErrClosed) {
				return fmt.Errorf("operation %d: %v", i, err)
			}
		}
		return nil
	})
}

// A request that is left to the engine returns to the pool with the one before it.
func TestDetachedRequestsAreReused(t *testing.T) {
	simulated(t, 1, Limits{}, func(e *Engine, c *Comm) error {
		e.Lock()
		defer e.Unlock()
		for range 8 {
			before, first := e.NewPromise(c, "before")
			promise, then := e.NewPromise(c, "then")
			verdict := func(err error) error { return err }
			e.Detach(e.WrapAfter(first, verdict, then, func(st Status, err error) (Status, error) { return st, err }))
			before.Complete(nil)
			promise.Complete(nil)
		}
		if n := len(e.requests); n > 4 {
			return fmt.Errorf("%d requests were made", n)
		}
		return nil
	})
}
