package messages

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// ULFM 17.2.2: a waiting receive ends with the error when its peer dies, and so does each later
// operation with the failed rank.
func TestOperationsWithTheDeadFailEachTime(t *testing.T) {
	require.NoError(t, ranktest.WithDeath(2, func(c *banyan.Comm) error {
		buf := make([]byte, 100_000)
		for range 3 {
			_, err := c.Recv(buf, 1, 5)
			if err := ranktest.WantFailed(err, 1); err != nil {
				return fmt.Errorf("recv: %w", err)
			}
			if err := ranktest.WantFailed(c.Send(buf[:8], 1, 5), 1); err != nil {
				return fmt.Errorf("send of 8 bytes: %w", err)
			}
			if err := ranktest.WantFailed(c.Send(buf, 1, 5), 1); err != nil {
				return fmt.Errorf("send of 100000 bytes: %w", err)
			}
		}
		return nil
	}))
}

// ULFM 17.2.2: starting an operation with a failed rank reports nothing; waiting for it does.
func TestStartingNeverFails(t *testing.T) {
	require.NoError(t, ranktest.WithDeath(2, func(c *banyan.Comm) error {
		buf := make([]byte, 8)
		if _, err := c.Recv(buf, 1, 5); err == nil {
			return errors.New("the dead has sent")
		}
		for _, r := range []banyan.Request{c.Isend(buf, 1, 1), c.Irecv(buf, 1, 1)} {
			_, err := r.Wait()
			if err := ranktest.WantFailed(err, 1); err != nil {
				return err
			}
		}
		return nil
	}))
}

// Ranks 0 and 1 exchange messages before, during and after the death of rank 2 and see no error,
// whether they know of it or not.
func TestTheUninvolvedSeeNothing(t *testing.T) {
	require.NoError(t, ranktest.WithDeath(3, func(c *banyan.Comm) error {
		peer := 1 - c.Rank()
		out, in := ranktest.Pattern(c.Rank(), 30_000), make([]byte, 30_000)
		watch, waiting := c.Irecv(make([]byte, 1), 2, 7), c.Irecv(make([]byte, 8), peer, 0)
		known := 0 // exchanges since this rank has learned of the death
		for i := 1; ; i++ {
			if known > 0 {
				known++
			} else if _, done, err := watch.Test(); done {
				if err := ranktest.WantFailed(err, 2); err != nil {
					return err
				}
				known = 1
			}
			out[0] = byte(min(known, 20))
			st, err := c.Sendrecv(out, peer, i, in, peer, i)
			if err != nil || st.Count != len(in) {
				return fmt.Errorf("exchange %d, %d after the death: %d bytes, %w", i, known, st.Count, err)
			}
			if in[0] == 20 && out[0] == 20 { // both have the same count
				break
			}
		}
		// A receive posted before the death still gets its message.
		if err := c.Send(out[:8], peer, 0); err != nil {
			return err
		}
		_, err := waiting.Wait()
		return err
	}))
}

// With an unacknowledged failure, an operation that may depend on the failed rank fails before it
// starts.
func TestWildcardAfterAFailure(t *testing.T) {
	require.NoError(t, ranktest.WithDeath(3, func(c *banyan.Comm) error {
		buf := make([]byte, 8)
		if _, err := c.Recv(buf, 2, 0); err == nil {
			return errors.New("the dead has sent")
		}
		_, err := c.Recv(buf, banyan.AnySource, 1)
		if !errors.Is(err, banyan.ErrProcFailed) {
			return fmt.Errorf("a receive from any source: %v", err)
		}
		return nil
	}))
}

// The same program on the unaware engine waits for the failed rank for ever.
func TestTheUnawareEngineHangs(t *testing.T) {
	body := func(c *banyan.Comm) error {
		_, err := c.Recv(make([]byte, 8), 1, 5)
		return ranktest.WantFailed(err, 1)
	}
	require.NoError(t, ranktest.WithDeath(2, body, banyan.WithAware(true)))
	require.ErrorIs(t, ranktest.WithDeath(2, body, banyan.WithAware(false)), sim.ErrDeadlock)
}

// Each announced or queued send ends with the failure of its receiver.
func TestFloodOfTheDead(t *testing.T) {
	require.NoError(t, ranktest.WithDeath(2, func(c *banyan.Comm) error {
		reqs := make([]banyan.Request, 20_000)
		for i := range reqs {
			reqs[i] = c.Isend(make([]byte, 8), 1, 1)
		}
		var out []banyan.Outcome
		failed := 0
		for {
			var err error
			if out, err = banyan.WaitSome(reqs, out[:0]); err != nil {
				return err
			}
			if len(out) == 0 {
				break
			}
			for _, o := range out {
				if o.Err != nil {
					if err := ranktest.WantFailed(o.Err, 1); err != nil {
						return err
					}
					failed++
				}
			}
		}
		if failed < 10_000 {
			return fmt.Errorf("%d sends failed", failed)
		}
		return nil
	}))
}

// A collective of ranks that have all met ends at every rank, whenever one dies. No rank waits for
// one that has given up.
func TestCollectiveAndDeathAtAnyStep(t *testing.T) {
	const n = 5
	failed := 0
	for _, size := range []int{8, 100_000} {
		for step := uint64(1); step < 900; step += uint64(ranktest.Scaled(3, 60)) {
			errs := make([]error, n)
			require.NoError(t, banyan.Simulate(n, banyan.Simulation{
				Faults: func(s *sim.Sim) error { return s.KillAtStep(proc.ID(1+step%(n-1)), step) },
			}, func(w *banyan.World) error {
				c, buf := w.Comm(), make([]byte, size)
				defer func() { // stays a second, so that no waiting rank sees it depart
					for range 1000 {
						w.Sleep(time.Millisecond)
						_, _, _ = c.Iprobe(c.Rank(), 1) // makes progress
					}
				}()
				for peer := range n {
					if _, err := c.Sendrecv(nil, peer, 1, nil, peer, 1); err != nil {
						return nil // it died before
					}
				}
				for i := 0; i < 3 && errs[c.Rank()] == nil; i++ {
					errs[c.Rank()] = c.Allreduce(buf, buf, func(acc, in []byte) {})
				}
				return nil
			}), "%d bytes, step %d", size, step)
			for rank, err := range errs {
				if err != nil {
					require.ErrorIs(t, err, banyan.ErrProcFailed, "%d bytes, step %d, rank %d", size, step, rank)
					failed++
				}
			}
		}
	}
	require.NotZero(t, failed)
}

// The queries, by all their names.
func TestQueriesOfFailures(t *testing.T) {
	require.NoError(t, ranktest.WithDeath(4, func(c *banyan.Comm) error {
		if g := c.GetFailed(); g.Size() != 0 || c.FailureGetAcked().Size() != 0 {
			return fmt.Errorf("failed before the death: %d", g.Size())
		}
		if err := dead(c, 3); err != nil {
			return err
		}
		before := c.FailureGetAcked()
		n, err := c.AckFailed(0)
		if before.Size() != 0 || n != 0 || err != nil {
			return fmt.Errorf("%d are acknowledged, %w", n, err)
		}
		enabled, err := c.ReenableAnySource()
		if err != nil {
			return err
		}
		for _, g := range []banyan.Group{c.GetFailed(), c.GroupFailed(), c.RemoteGroupFailed(), c.FailureGetAcked(),
			enabled} {
			ranks, err := c.Group().Translate([]int{3, 0}, g)
			if err != nil || g.Size() != 1 || !slices.Equal(ranks, []int{0, banyan.Undefined}) {
				return fmt.Errorf("size %d, ranks %v, %w", g.Size(), ranks, err)
			}
		}
		if n, err := c.AckFailed(c.Size()); n != 1 || err != nil {
			return fmt.Errorf("%d are acknowledged, %w", n, err)
		}
		if _, err := c.AckFailed(-1); !errors.Is(err, banyan.ErrArgument) {
			return fmt.Errorf("minus one: %v", err)
		}
		// Collectives need failed ranks, acknowledged or not; local operations work.
		if err := c.Barrier(); !errors.Is(err, banyan.ErrProcFailed) || !errors.Is(err, banyan.ErrRankFailStop) ||
			!errors.Is(err, banyan.ErrProcFailStop) {
			return fmt.Errorf("barrier: %v", err)
		}
		d, err := c.CreateGroup(c.Group().Difference(c.GetFailed()), 1)
		if err != nil {
			return err
		}
		return d.Barrier()
	}))
}

// In the RTS profile acknowledged failed ranks behave like ProcNull.
func TestRunThrough(t *testing.T) {
	for _, debug := range []bool{false, true} {
		runThrough(t, banyan.WithProfile(banyan.RTS), banyan.WithDebug(debug))
	}
	err := banyan.Simulate(1, banyan.Simulation{Options: []banyan.Option{banyan.WithProfile(7)}}, nil)
	require.ErrorIs(t, err, banyan.ErrArgument)
}

func runThrough(t *testing.T, opts ...banyan.Option) {
	require.NoError(t, ranktest.WithDeath(3, func(c *banyan.Comm) error {
		if c.Rank() == 1 {
			return nil
		}
		if err := errors.Join(dead(c, 2), ranktest.WantFailed(c.Send(nil, 2, 1), 2)); err != nil {
			return err
		}
		if _, err := c.Irecv(nil, banyan.AnySource, 1).Wait(); !errors.Is(err, banyan.ErrProcFailed) {
			return fmt.Errorf("a wildcard that is started: %v", err)
		}
		if _, err := c.ReenableAnySource(); err != nil {
			return err
		}
		st, err := c.Sendrecv(make([]byte, 100_000), 2, 1, make([]byte, 9), 2, 1)
		if st.Source != banyan.ProcNull || st.Count != 0 || err != nil {
			return fmt.Errorf("%+v, %w", st, err)
		}
		for _, c := range []*banyan.Comm{c, c.WithContext(t.Context())} {
			n, st, err := banyan.RecvValue[int](c, 2, 1)
			if n != 0 || st.Source != banyan.ProcNull || err != nil {
				return fmt.Errorf("a number: %d, %+v, %w", n, st, err)
			}
			text, st, err := banyan.RecvValue[string](c, 2, 1)
			if text != "" || st.Source != banyan.ProcNull || err != nil {
				return fmt.Errorf("a string: %q, %+v, %w", text, st, err)
			}
		}
		return nil
	}, opts...))
}

// Faults of the package's constructors happen to the named ranks, at their time or step; ranks that
// do not exist are an error of the simulation.
func TestFaults(t *testing.T) {
	kills := banyan.Faults(banyan.Kill(3, time.Second), banyan.KillAtStep(2, 1), banyan.Disconnect(0, 1, 0))
	require.NoError(t, banyan.Simulate(4, banyan.Simulation{Faults: kills}, func(w *banyan.World) error {
		c := w.Comm()
		for rank, want := range []string{1: "unreachable", 2: "SIGKILL", 3: "SIGKILL"} {
			if rank == 0 {
				continue
			}
			if c.Rank() != 0 {
				w.Sleep(10 * time.Second) // rank 3 is killed meanwhile, rank 2 does not get here
				return nil
			}
			_, err := c.Recv(nil, rank, 0)
			require.ErrorIs(t, err, banyan.ErrProcFailed)
			require.ErrorContains(t, err, want)
			if rank == 3 {
				require.Equal(t, time.Second, w.Now().Truncate(100*time.Millisecond))
			}
		}
		return nil
	}))
	for _, f := range []banyan.Fault{
		banyan.Kill(4, 0), banyan.Kill(-1, 0), banyan.KillAtStep(4, 1), banyan.Disconnect(0, 4, 0), banyan.Disconnect(1, 1, 0),
	} {
		err := banyan.Simulate(4, banyan.Simulation{Faults: banyan.Faults(f)}, func(*banyan.World) error { return nil })
		require.ErrorIs(t, err, banyan.ErrArgument)
	}
}

// WaitEach gives status and error of each request at its index. A receive that is pending for a
// failure stays in the slice and ends later. Without room for the outcomes nothing is waited for.
func TestWaitEach(t *testing.T) {
	require.NoError(t, ranktest.WithDeath(3, func(c *banyan.Comm) error {
		if c.Rank() == 1 {
			return c.Send([]byte("four"), 0, 4)
		}
		buf, told := make([]byte, 8), 0
		c.SetErrorHandler(func(*banyan.Comm, error) { told++ })
		reqs := []banyan.Request{
			c.Irecv(nil, 2, 1), {}, c.Irecv(buf, 1, 4), c.Irecv(nil, banyan.AnySource, 5), c.Isend(nil, 9, 0),
		}
		out := make([]banyan.Outcome, 6)
		require.ErrorIs(t, banyan.WaitEach(reqs, out[:4]), banyan.ErrArgument)
		err := banyan.WaitEach(reqs, out)
		require.ErrorIs(t, err, banyan.ErrProcFailed)
		require.Equal(t, err, out[0].Err)
		require.Equal(t, 3, told)
		require.Equal(t, banyan.Outcome{Index: 1}, out[1])
		require.Equal(t, banyan.Outcome{Index: 2, Status: banyan.Status{Source: 1, Tag: 4, Count: 4}}, out[2])
		require.ErrorIs(t, out[3].Err, banyan.ErrProcFailedPending)
		require.ErrorIs(t, out[4].Err, banyan.ErrArgument)
		require.Equal(t, banyan.Outcome{}, out[5])
		for i, r := range reqs {
			require.Equal(t, i == 3, r != banyan.Request{}, "request %d", i)
		}
		reqs[3].Cancel()
		require.NoError(t, banyan.WaitEach(reqs, out))
		require.True(t, out[3].Status.Cancelled)
		return nil
	}))
}
