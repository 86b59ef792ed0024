package messages

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/launch"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// pending: rank 3 of 4 kills itself with all kinds of operations under way. Operations with it end,
// wildcards are pending, all others continue.
func pending(w *banyan.World) error {
	c := w.Comm()
	const long = 8 << 20
	if c.Rank() == 3 {
		return victim(c, long)
	}
	small, big := make([]byte, 8), make([]byte, long)
	wild := c.Irecv(small, banyan.AnySource, 1)
	// In all sizes: messages that the victim announced, messages that no rank sends, and messages
	// that the victim does not receive.
	reqs := []banyan.Request{c.Irecv(nil, 3, 2), c.Issend(nil, 3, 3), c.Isend(big, 3, 4), c.Issend(big[:3000], 3, 5)}
	alive := c.Irecv(make([]byte, 8), (c.Rank()+1)%3, 6)
	if _, err := c.Recv(nil, 3, 9); err != nil {
		return err
	}
	if err := c.Send(nil, 3, 8); err != nil {
		return err
	}
	for i, r := range reqs {
		_, err := r.Wait()
		if err := ranktest.WantFailed(err, 3); err != nil {
			return fmt.Errorf("request %d: %w", i, err)
		}
	}
	if _, err := c.Recv(big, 3, 7); ranktest.WantFailed(err, 3) != nil {
		return fmt.Errorf("announced by the dead: %w", err)
	}
	for range 3 {
		_, err := wild.Wait()
		if err := isPending(err, 3); err != nil {
			return err
		}
	}
	if n, err := c.AckFailed(c.Size()); n != 1 || err != nil {
		return fmt.Errorf("%d are acknowledged, %w", n, err)
	}
	if err := barrier(c, 3); err != nil { // all ranks have a pending receive
		return err
	}
	next, before := (c.Rank()+1)%3, (c.Rank()+2)%3
	if err := errors.Join(c.Send([]byte("named"), before, 6), c.Send([]byte("wild"), next, 1)); err != nil {
		return err
	}
	if err := banyan.WaitAll([]banyan.Request{alive, wild}); err != nil || string(small[:4]) != "wild" {
		return fmt.Errorf("%q, %w", small, err)
	}
	for range 1000 {
		if _, err := c.Sendrecv(small, next, 10, small, before, 10); err != nil {
			return err
		}
	}
	_, err := c.Sendrecv(big, next, 11, make([]byte, long), before, 11)
	return err
}

// victim announces long messages and dies when all others have met it.
func victim(c *banyan.Comm, long int) error {
	for rank := range 3 {
		c.Isend(make([]byte, long), rank, 7)
		if err := c.Send(nil, rank, 9); err != nil {
			return err
		}
	}
	for rank := range 3 {
		if _, err := c.Recv(nil, rank, 8); err != nil {
			return err
		}
	}
	return syscall.Kill(os.Getpid(), syscall.SIGKILL)
}

// ULFM 17.2.2 with processes, over all fabrics and both ways of moving long messages.
func TestPendingWithProcesses(t *testing.T) {
	for _, env := range [][]string{
		nil, {ranktest.NoCopyEnv + "=1"}, {"BANYAN_FABRIC=tcp"}, {"BANYAN_FABRIC=unix"},
		{ranktest.Nodes("a;a;b;b"), "BANYAN_FABRIC=shm,tcp"},
	} {
		res, out := ranktest.Job(t, launch.Continue, 4, "pending", env...)
		for rank, e := range res.Ends {
			if rank == 3 {
				require.Equal(t, syscall.SIGKILL, e.Signal, "%v: %s", env, out)
			} else {
				require.False(t, e.Failed(), "%v: rank %d: %v\n%s", env, rank, e, out)
			}
		}
	}
}

// dead waits until this rank knows that another one has failed.
func dead(c *banyan.Comm, rank int) error {
	_, err := c.Recv(nil, rank, 99)
	return ranktest.WantFailed(err, rank)
}

// isPending checks that an error reports a receive as pending because of a rank.
func isPending(err error, rank int) error {
	if !errors.Is(err, banyan.ErrProcFailedPending) || errors.Is(err, banyan.ErrProcFailed) {
		return fmt.Errorf("want a pending receive, got: %v", err)
	}
	return ranktest.WantFailed(err, rank)
}

// sets are the calls on several requests. Each gets a pending, a complete and a waiting receive,
// and returns the error of the pending one.
var sets = map[string]func(c *banyan.Comm, reqs []banyan.Request) error{
	"wait any": func(_ *banyan.Comm, reqs []banyan.Request) error {
		i, st, err := banyan.WaitAny(reqs)
		if i != 1 || st.Count != 1 || err != nil {
			return fmt.Errorf("first %d, %+v, %w", i, st, err)
		}
		i, _, err = banyan.WaitAny(reqs)
		if i != 0 {
			return fmt.Errorf("then %d, %w", i, err)
		}
		return err
	},
	"test any": func(_ *banyan.Comm, reqs []banyan.Request) error {
		i, st, done, err := banyan.TestAny(reqs)
		if i != 1 || st.Count != 1 || !done || err != nil {
			return fmt.Errorf("first %d, %+v, %v, %w", i, st, done, err)
		}
		i, _, done, err = banyan.TestAny(reqs)
		if i != 0 || done {
			return fmt.Errorf("then %d, %v, %w", i, done, err)
		}
		return err
	},
	"wait some": func(_ *banyan.Comm, reqs []banyan.Request) error {
		return pendingAndComplete(banyan.WaitSome(reqs, nil))
	},
	"wait some, context": func(_ *banyan.Comm, reqs []banyan.Request) error {
		ctx, cancel := context.WithCancel(context.Background())
		defer func() {
			with(context.Background(), reqs)
			cancel()
		}()
		return pendingAndComplete(banyan.WaitSome(with(ctx, reqs), nil))
	},
	"test some": func(_ *banyan.Comm, reqs []banyan.Request) error {
		out, active, err := banyan.TestSome(reqs, nil)
		if active != 2 {
			return fmt.Errorf("%d are active", active)
		}
		return pendingAndComplete(out, err)
	},
	"test all": func(_ *banyan.Comm, reqs []banyan.Request) error {
		before := slices.Clone(reqs)
		done, err := banyan.TestAll(reqs)
		if done || !slices.Equal(before, reqs) {
			return fmt.Errorf("done %v, %w", done, err)
		}
		if _, second := reqs[1].Wait(); second != nil {
			return second
		}
		reqs[1] = banyan.Request{}
		return err
	},
	"wait all": func(c *banyan.Comm, reqs []banyan.Request) error {
		if err := c.Send([]byte("x"), c.Rank(), 3); err != nil {
			return err
		}
		err := banyan.WaitAll(reqs)
		if reqs[2] != (banyan.Request{}) {
			return fmt.Errorf("the last one is left, %w", err)
		}
		reqs[2] = c.Irecv(make([]byte, 1), c.Rank(), 3)
		return err
	},
	"wait all, context": func(c *banyan.Comm, reqs []banyan.Request) error {
		if err := c.Send([]byte("x"), c.Rank(), 3); err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(context.Background())
		defer func() {
			with(context.Background(), reqs)
			cancel()
		}()
		err := banyan.WaitAll(with(ctx, reqs))
		reqs[2] = c.Irecv(make([]byte, 1), c.Rank(), 3)
		return err
	},
}

// pendingAndComplete checks the outcomes of a pending and a complete request.
func pendingAndComplete(out []banyan.Outcome, err error) error {
	if len(out) != 2 || out[0].Index != 0 || out[1].Index != 1 || out[1].Err != nil || err != nil {
		return fmt.Errorf("%+v, %w", out, err)
	}
	return out[0].Err
}

// ULFM 17.2.2: of a set of requests a pending one is reported and stays, complete ones end, waiting
// ones stay. After an acknowledgement all continue.
func TestPendingInSets(t *testing.T) {
	for name, call := range sets {
		require.NoError(t, ranktest.WithDeath(3, func(c *banyan.Comm) error {
			if c.Rank() == 1 {
				return nil
			}
			bufs := make([]byte, 3)
			reqs := []banyan.Request{
				c.Irecv(bufs[:1], banyan.AnySource, 1), c.Irecv(bufs[1:2], c.Rank(), 2), c.Irecv(bufs[2:], c.Rank(), 3),
			}
			if err := errors.Join(dead(c, 2), c.Send([]byte("b"), c.Rank(), 2), c.Send(nil, c.Rank(), 98)); err != nil {
				return err
			}
			if _, err := c.Recv(nil, c.Rank(), 98); err != nil { // the other message has arrived
				return err
			}
			if err := isPending(call(c, reqs), 2); err != nil {
				return err
			}
			if reqs[0] == (banyan.Request{}) || reqs[1] != (banyan.Request{}) || reqs[2] == (banyan.Request{}) {
				return fmt.Errorf("the requests are %+v", reqs)
			}
			if _, done, err := reqs[0].Test(); done || isPending(err, 2) != nil {
				return fmt.Errorf("test: %v, %w", done, err)
			}
			if err := c.FailureAck(); err != nil {
				return err
			}
			if i, _, done, err := banyan.TestAny(reqs); i != -1 || done || err != nil {
				return fmt.Errorf("acknowledged: %d, %v, %w", i, done, err)
			}
			if err := errors.Join(c.Send([]byte("c"), c.Rank(), 3), c.Send([]byte("a"), c.Rank(), 1)); err != nil {
				return err
			}
			if err := banyan.WaitAll(reqs); err != nil || string(bufs[:2]) != "ab" {
				return fmt.Errorf("%q, %w", bufs, err)
			}
			return nil
		}), name)
	}
}

// A persistent receive from a failed rank ends with the failure each time it is started. A pending
// one from any source stays active.
func TestPersistentRequestsOfTheDead(t *testing.T) {
	require.NoError(t, ranktest.WithDeath(3, func(c *banyan.Comm) error {
		if c.Rank() == 1 {
			return nil
		}
		buf := make([]byte, 4)
		for _, p := range []*banyan.Persistent{c.RecvInit(buf, 2, 1), c.SendInit(buf, 2, 1), c.SsendInit(buf, 2, 1)} {
			for range 3 {
				p.Start()
				_, err := p.Wait()
				if err := ranktest.WantFailed(err, 2); err != nil {
					return err
				}
			}
			if err := p.Free(); err != nil {
				return err
			}
		}
		p := c.RecvInit(buf, banyan.AnySource, 1)
		p.Start()
		for range 2 {
			_, err := p.Wait()
			if err := isPending(err, 2); err != nil {
				return err
			}
		}
		if err := p.Free(); !errors.Is(err, banyan.ErrArgument) {
			return fmt.Errorf("freed while pending: %v", err)
		}
		if err := errors.Join(c.FailureAck(), c.Send([]byte("text"), c.Rank(), 1)); err != nil {
			return err
		}
		if st, err := p.Wait(); err != nil || st.Count != 4 {
			return fmt.Errorf("%+v, %w", st, err)
		}
		return p.Free()
	}))
}

// Blocking calls on any source end with ErrProcFailed, with and without a context, and leave no
// posted receive that could take a later message.
func TestBlockingCallsOnAnySource(t *testing.T) {
	calls := map[string]func(c *banyan.Comm, ctx context.Context) error{
		"recv": func(c *banyan.Comm, _ context.Context) error { return lastOf(c.Recv(nil, banyan.AnySource, 1)) },
		"recv context": func(c *banyan.Comm, ctx context.Context) error {
			return lastOf(c.WithContext(ctx).Recv(nil, banyan.AnySource, 1))
		},
		"sendrecv": func(c *banyan.Comm, _ context.Context) error {
			return lastOf(c.Sendrecv(nil, c.Rank(), 7, nil, banyan.AnySource, 1))
		},
		"sendrecv context": func(c *banyan.Comm, ctx context.Context) error {
			return lastOf(c.WithContext(ctx).Sendrecv(nil, c.Rank(), 7, nil, banyan.AnySource, 1))
		},
		"mprobe context": func(c *banyan.Comm, ctx context.Context) error {
			return lastOf(c.WithContext(ctx).Mprobe(banyan.AnySource, 1))
		},
		"value": func(c *banyan.Comm, _ context.Context) error {
			_, _, err := banyan.RecvValue[int](c, banyan.AnySource, 1)
			return err
		},
		"typed": func(c *banyan.Comm, _ context.Context) error {
			return lastOf(banyan.Recv(c, []int{0}, banyan.AnySource, 1))
		},
	}
	for name, call := range calls {
		require.NoError(t, ranktest.WithDeath(3, func(c *banyan.Comm) error {
			if c.Rank() == 1 {
				return nil
			}
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			watch := c.Irecv(nil, 2, 8) // so that this rank learns of the death during the call
			for range 2 {
				err := call(c, ctx)
				if !errors.Is(err, banyan.ErrProcFailed) || ranktest.WantFailed(err, 2) != nil {
					return fmt.Errorf("got %w", err)
				}
			}
			if _, err := watch.Wait(); ranktest.WantFailed(err, 2) != nil {
				return err
			}
			if err := errors.Join(c.FailureAck(), c.Send([]byte("x"), c.Rank(), 1)); err != nil {
				return err
			}
			st, err := c.Recv(make([]byte, 1), banyan.AnySource, 1)
			if err != nil || st.Count != 1 {
				return fmt.Errorf("the message is lost: %+v, %w", st, err)
			}
			return nil
		}), name)
	}
}

// The end of a context cancels a pending receive; without it the receive stays.
func TestContextOfAPendingReceive(t *testing.T) {
	require.NoError(t, ranktest.WithDeath(3, func(c *banyan.Comm) error {
		if c.Rank() == 1 {
			return nil
		}
		r := c.Irecv(nil, banyan.AnySource, 1)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		if err := dead(c, 2); err != nil {
			return err
		}
		_, err := r.WithContext(ctx).Wait()
		if err := isPending(err, 2); err != nil {
			return err
		}
		cancel()
		if _, err := r.WithContext(ctx).Wait(); !errors.Is(err, context.Canceled) {
			return fmt.Errorf("got %w", err)
		}
		_, err = r.Wait()
		return err
	}))
}

// lastOf is the error of a call with another result before it.
func lastOf[T any](_ T, err error) error { return err }
