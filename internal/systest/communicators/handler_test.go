package communicators

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/launch"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// told is a handler that records its calls and uses the library itself.
type told struct {
	on    []*banyan.Comm
	errs  []error
	stack string
	own   error
}

func (h *told) handle(c *banyan.Comm, err error) {
	h.on, h.errs, h.stack = append(h.on, c), append(h.errs, err), string(debug.Stack())
	// Sending to oneself takes the engine's lock and waits.
	in := make([]byte, 5)
	_, h.own = c.Sendrecv([]byte("hello"), c.Rank(), 9, in, c.Rank(), 9)
}

// failing are calls that fail because rank 2 of a communicator is dead, or because they are wrong.
var failing = map[string]func(c *banyan.Comm, live context.Context) error{
	"send":     func(c *banyan.Comm, _ context.Context) error { return c.Send(make([]byte, 8), 2, 1) },
	"recv":     func(c *banyan.Comm, _ context.Context) error { return second(c.Recv(make([]byte, 8), 2, 1)) },
	"wildcard": func(c *banyan.Comm, _ context.Context) error { return second(c.Recv(nil, banyan.AnySource, 1)) },
	"sendrecv": func(c *banyan.Comm, _ context.Context) error { return second(c.Sendrecv(nil, 2, 1, nil, 2, 1)) },
	"ssend":    func(c *banyan.Comm, _ context.Context) error { return c.Ssend(nil, 2, 1) },
	"probe":    func(c *banyan.Comm, _ context.Context) error { return second(c.Probe(2, 1)) },
	"iprobe":   func(c *banyan.Comm, _ context.Context) error { _, _, err := c.Iprobe(2, 1); return err },
	"mprobe":   func(c *banyan.Comm, _ context.Context) error { return second(c.Mprobe(2, 1)) },
	"improbe":  func(c *banyan.Comm, _ context.Context) error { _, _, err := c.Improbe(2, 1); return err },
	"wait":     func(c *banyan.Comm, _ context.Context) error { return second(c.Irecv(nil, 2, 1).Wait()) },
	"test":     func(c *banyan.Comm, _ context.Context) error { _, _, err := c.Irecv(nil, 2, 1).Test(); return err },
	"wait all": func(c *banyan.Comm, _ context.Context) error {
		return banyan.WaitAll([]banyan.Request{c.Isend(nil, 0, 9), {}, c.Irecv(nil, 2, 1), c.Irecv(nil, 0, 9)})
	},
	"test all": func(c *banyan.Comm, _ context.Context) error {
		return second(banyan.TestAll([]banyan.Request{{}, c.Irecv(nil, 2, 1)}))
	},
	"wait any": func(c *banyan.Comm, _ context.Context) error {
		_, _, err := banyan.WaitAny([]banyan.Request{{}, c.Irecv(nil, 2, 1)})
		return err
	},
	"test any": func(c *banyan.Comm, _ context.Context) error {
		_, _, _, err := banyan.TestAny([]banyan.Request{c.Irecv(nil, 2, 1)})
		return err
	},
	"wait some": func(c *banyan.Comm, _ context.Context) error {
		out, err := banyan.WaitSome([]banyan.Request{c.Irecv(nil, 2, 1)}, nil)
		return errors.Join(err, out[0].Err)
	},
	"test some": func(c *banyan.Comm, _ context.Context) error {
		out, _, err := banyan.TestSome([]banyan.Request{c.Irecv(nil, 2, 1)}, nil)
		return errors.Join(err, out[0].Err)
	},
	"persistent": func(c *banyan.Comm, _ context.Context) error {
		p := c.RecvInit(nil, 2, 1)
		p.Start()
		return second(p.Wait())
	},
	"wait context": func(c *banyan.Comm, live context.Context) error {
		return second(c.WithContext(live).Irecv(nil, 2, 1).Wait())
	},
	"barrier context": func(c *banyan.Comm, live context.Context) error { return c.WithContext(live).Barrier() },
	"split context": func(c *banyan.Comm, live context.Context) error {
		return second(c.WithContext(live).Split(0, 0))
	},
	"send context": func(c *banyan.Comm, live context.Context) error { return c.WithContext(live).Send(nil, 2, 1) },
	"recv context": func(c *banyan.Comm, live context.Context) error {
		return second(c.WithContext(live).Recv(nil, 2,
			1))
	},
	"probe context":  func(c *banyan.Comm, live context.Context) error { return second(c.WithContext(live).Probe(2, 1)) },
	"mprobe context": func(c *banyan.Comm, live context.Context) error { return second(c.WithContext(live).Mprobe(2, 1)) },
	"ssend context":  func(c *banyan.Comm, live context.Context) error { return c.WithContext(live).Ssend(nil, 2, 1) },
	"sendrecv context": func(c *banyan.Comm, live context.Context) error {
		return second(c.WithContext(live).Sendrecv(nil, 2, 1, nil, 2, 1))
	},
	"sendrecv context, one half": func(c *banyan.Comm, live context.Context) error {
		return second(c.WithContext(live).Sendrecv(nil, 2, 1, nil, 0, 1))
	},
	"wait all context": func(c *banyan.Comm, live context.Context) error {
		return banyan.WaitAll([]banyan.Request{{}, c.WithContext(live).Irecv(nil, 2, 1)})
	},
	"typed recv": func(c *banyan.Comm, _ context.Context) error { return second(banyan.Recv(c, make([]int, 1), 2, 1)) },
	"typed recv of half a number": func(c *banyan.Comm, _ context.Context) error {
		c.Isend(make([]byte, 3), c.Rank(), 4)
		return second(banyan.Recv(c, make([]int64, 1), c.Rank(), 4))
	},
	"barrier": func(c *banyan.Comm, _ context.Context) error { return c.Barrier() },
	"bcast":   func(c *banyan.Comm, _ context.Context) error { return c.Bcast(nil, 0) },
	"allreduce": func(c *banyan.Comm, _ context.Context) error {
		return banyan.Allreduce(c, []int{1}, []int{1},
			banyan.Sum)
	},
	"split":          func(c *banyan.Comm, _ context.Context) error { return second(c.Split(0, 0)) },
	"split color":    func(c *banyan.Comm, _ context.Context) error { return second(c.Split(-1, 0)) },
	"split by node":  func(c *banyan.Comm, _ context.Context) error { return second(c.SplitByNode(0)) },
	"create inter":   func(c *banyan.Comm, _ context.Context) error { return second(c.CreateInter(0, nil, 0, 0)) },
	"merge":          func(c *banyan.Comm, _ context.Context) error { return second(c.Merge(false)) },
	"create group":   func(c *banyan.Comm, _ context.Context) error { return second(c.CreateGroup(c.Group(), -1)) },
	"wrong rank":     func(c *banyan.Comm, _ context.Context) error { return c.Send(nil, 99, 1) },
	"wrong tag wait": func(c *banyan.Comm, _ context.Context) error { return second(c.Isend(nil, 0, -7).Wait()) },
}

func second[T any](_ T, err error) error { return err }

func TestHandlerIsToldOnceOfEachFailedOperation(t *testing.T) {
	require.NoError(t, ranktest.WithDeath(3, func(c *banyan.Comm) error {
		if c.Rank() == 1 {
			return nil
		}
		if _, err := c.Recv(nil, 2, 1); err == nil {
			return errors.New("the dead has sent")
		}
		live, cancel := context.WithCancel(context.Background())
		defer cancel()
		for name, call := range failing {
			var h told
			c.SetErrorHandler(h.handle)
			err := call(c, live)
			switch {
			case err == nil:
				return fmt.Errorf("%s: succeeded", name)
			case len(h.errs) != 1:
				return fmt.Errorf("%s: the handler was called %d times: %v", name, len(h.errs), h.errs)
			case h.on[0] != c || !strings.Contains(err.Error(), h.errs[0].Error()):
				return fmt.Errorf("%s: told of %v, returned %w", name, h.errs[0], err)
			case !strings.Contains(h.stack, "TestHandlerIsToldOnceOfEachFailedOperation"):
				return fmt.Errorf("%s: called from elsewhere:\n%s", name, h.stack)
			case h.own != nil:
				return fmt.Errorf("%s: within the handler: %w", name, h.own)
			}
		}
		return nil
	}))
}

// Each failed request of a call on several requests is one operation. All have ended when the first
// is reported.
func TestHandlerOfSeveralRequests(t *testing.T) {
	require.NoError(t, ranktest.WithDeath(3, func(c *banyan.Comm) error {
		d, err := c.Dup()
		if err != nil {
			return err
		}
		reqs := []banyan.Request{c.Irecv(nil, 2, 1), d.Irecv(nil, 2, 1), c.Irecv(nil, c.Rank(), 5), c.Irecv(nil, 2, 2)}
		var on []*banyan.Comm
		h := func(c *banyan.Comm, _ error) {
			if on = append(on, c); reqs[2] != (banyan.Request{}) {
				on = nil
			}
		}
		c.SetErrorHandler(h)
		d.SetErrorHandler(h)
		if err := c.Send(nil, c.Rank(), 5); err != nil {
			return err
		}
		if err := ranktest.WantFailed(banyan.WaitAll(reqs), 2); err != nil {
			return err
		}
		if len(on) != 3 || on[0] != c || on[1] != d || on[2] != c {
			return fmt.Errorf("told of %d failures", len(on))
		}
		return nil
	}))
}

func TestHandlerIsNotToldOfSuccess(t *testing.T) {
	require.NoError(t, banyan.Simulate(3, banyan.Simulation{}, func(w *banyan.World) error {
		var h told
		w.Comm().SetErrorHandler(h.handle)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_, late := w.Comm().WithContext(ctx).Recv(nil, 0, 3)
		if !errors.Is(late, context.Canceled) {
			return late
		}
		return errors.Join(append(h.errs, ranktest.Ring(w), ranktest.Crowd(w))...)
	}))
}

func TestHandlerIsInherited(t *testing.T) {
	require.NoError(t, banyan.Simulate(2, banyan.Simulation{}, func(w *banyan.World) error {
		c := w.Comm()
		var h told
		c.SetErrorHandler(h.handle)
		dup, err1 := c.Dup()
		side, err2 := c.Split(c.Rank(), 0)
		group, err3 := c.CreateGroup(side.Group(), 3)
		made, err4 := c.Create(c.Group())
		inter, err5 := side.CreateInter(0, c, 1-c.Rank(), 1)
		if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
			return err
		}
		merged, err := inter.Merge(false)
		if err != nil {
			return err
		}
		for i, d := range []*banyan.Comm{dup, side, group, made, inter, merged} {
			_ = d.Send(nil, 99, 0)
			if len(h.on) != i+1 || h.on[i] != d {
				return fmt.Errorf("%s has another handler", d.Name())
			}
			d.SetErrorHandler(nil)
			if d.Send(nil, 99, 0) == nil || len(h.on) != i+1 {
				return fmt.Errorf("%s still has the handler", d.Name())
			}
		}
		return nil
	}))
}

// fatal fails on one of three ranks.
func fatal(w *banyan.World) error {
	c := w.Comm()
	c.SetErrorHandler(banyan.ErrorsAreFatal)
	if c.Rank() == 1 {
		return c.Send(nil, 77, 1)
	}
	_, err := c.Recv(make([]byte, 1), 2, 2) // never sent
	return err
}

const fatalText = "rank 1 aborts the job: errors are fatal: Send(dst 77, tag 1, 0 bytes) on world at rank 1: wrong argument: rank 77"

func TestErrorsAreFatal(t *testing.T) {
	res, out := ranktest.Job(t, launch.Continue, 3, "fatal")
	require.Contains(t, out, fatalText)
	require.Equal(t, 1, res.Code, out)
	for _, e := range res.Ends {
		require.True(t, e.Failed(), "%v\n%s", e, out)
	}
	// Whether rank 0 learns of the end of rank 2 before the launcher kills it is chance. The
	// simulated test checks its message.
}

func TestErrorsAreFatalInASimulation(t *testing.T) {
	err := banyan.Simulate(3, banyan.Simulation{}, fatal)
	require.ErrorContains(t, err, fatalText)
	require.NotContains(t, err.Error(), "rank 0")
}

// unchecked checks no error: the last of its ranks dies while the first waits for it.
func unchecked(w *banyan.World) error {
	c := w.Comm()
	last := c.Size() - 1
	switch c.Rank() {
	case last:
		return unix.Kill(os.Getpid(), unix.SIGKILL)
	case 0:
		_, _ = c.Recv(make([]byte, 1), last, 1)
		fmt.Fprintln(os.Stderr, "unchecked: rank 0 goes on")
	}
	return nil
}

const careText = "banyan: rank 0 aborts the job: errors are fatal: Recv(src 1, tag 1) on world at rank 0: rank 1 has failed: "

// BANYAN_ERRORS=fatal gives a program without a handler MPI's default.
func TestErrorsAreFatalByTheEnvironment(t *testing.T) {
	res, out := ranktest.Job(t, launch.Continue, 2, "unchecked", "BANYAN_ERRORS=fatal")
	require.Contains(t, out, careText)
	require.NotContains(t, out, "goes on")
	require.True(t, res.Ends[0].Failed(), out) // by its exit, or by the launcher, which ends all
	require.NotZero(t, res.Code, out)          // of the first failed rank
}

func TestErrorsAreReturnedByDefault(t *testing.T) {
	res, out := ranktest.Job(t, launch.Continue, 2, "unchecked")
	require.Contains(t, out, "unchecked: rank 0 goes on")
	require.NotContains(t, out, "errors are fatal")
	require.False(t, res.Ends[0].Failed(), "%v\n%s", res.Ends[0], out)
}

// The option gives every communicator its handler; SetErrorHandler replaces it.
func TestErrorsAreFatalByTheOption(t *testing.T) {
	run := func(fatal bool, before func(*banyan.Comm)) error {
		s := banyan.Simulation{Options: []banyan.Option{banyan.WithErrorsFatal(fatal)}}
		return banyan.Simulate(2, s, func(w *banyan.World) error {
			c, err := w.Comm().Dup()
			if err != nil {
				return err
			}
			before(c)
			if c.Rank() == 0 {
				_ = c.Send(nil, 77, 1)
			}
			return nil
		})
	}
	nothing := func(*banyan.Comm) {}
	require.ErrorContains(t, run(true, nothing), "rank 0 aborts the job: errors are fatal: Send(dst 77, tag 1, 0 bytes) on ")
	require.NoError(t, run(false, nothing))
	require.NoError(t, run(true, func(c *banyan.Comm) { c.SetErrorHandler(nil) }))
	told := errors.New("")
	require.NoError(t, run(true, func(c *banyan.Comm) {
		c.SetErrorHandler(func(_ *banyan.Comm, err error) { told = err })
	}))
	require.ErrorIs(t, told, banyan.ErrArgument)
}
