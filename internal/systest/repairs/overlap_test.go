package repairs

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// overlapping makes two communicators: green without the last rank, orange without the first.
func overlapping(c *banyan.Comm) (green, orange *banyan.Comm, err error) {
	all := c.Group()
	g, err := all.Exclude(c.Size() - 1)
	if err != nil {
		return nil, nil, err
	}
	o, err := all.Exclude(0)
	if err != nil {
		return nil, nil, err
	}
	if green, err = c.Create(g); err != nil {
		return nil, nil, err
	}
	orange, err = c.Create(o)
	return green, orange, err
}

// A question of the MPI forum (issue 20 of its tracker): two communicators with common members are
// both revoked, and one member shrinks the green one first, another the orange one. With Ishrink
// none waits for the other, though each member starts them in an order of its own and a rank dies
// meanwhile.
func TestOverlappingCommunicatorsShrinkInAnyOrder(t *testing.T) {
	for seed := range uint64(ranktest.Often(60, 3000)) {
		r := rand.New(rand.NewPCG(seed, 51))
		n := 4 + r.IntN(7)
		victim := 1 + r.IntN(n-2)
		at := uint64(time.Millisecond) + uint64(r.Int64N(int64(100*time.Microsecond)))
		s := &scene{n: n, seed: seed, at: map[int]uint64{victim: at}}
		require.NoError(t, s.run(func(w *banyan.World) error {
			green, orange, err := overlapping(w.Comm())
			if err != nil {
				return err
			}
			w.Sleep(time.Millisecond)
			var left [2]banyan.Result[*banyan.Comm]
			var requests []banyan.Request
			both := []*banyan.Comm{green, orange}
			mine := rand.New(rand.NewPCG(seed, uint64(w.Comm().Rank())))
			for _, i := range mine.Perm(2) {
				if c := both[i]; c != nil {
					if err := c.Revoke(); err != nil {
						return err
					}
					left[i] = c.Ishrink()
					requests = append(requests, left[i].Request())
				}
			}
			if err := banyan.WaitAll(requests); err != nil {
				return err
			}
			for i, shrink := range left {
				c := shrink.Value()
				if (c == nil) != (both[i] == nil) {
					return fmt.Errorf("communicator %d: %v", i, c)
				}
				if c == nil {
					continue
				}
				for c.Size() == both[i].Size() { // it dies later
					w.Sleep(10 * time.Microsecond)
					if c, err = rebuild(c); err != nil {
						return err
					}
				}
				if c.Size() != both[i].Size()-1 || slices.Contains(ranktest.RanksIn(c.Group(), w.Comm()), victim) {
					return fmt.Errorf("%d are left of %d", c.Size(), both[i].Size())
				}
			}
			return nil
		}), "seed %d", seed)
	}
}

// Shrink waits for all members, so communicators with common members must be shrunk in one order
// everywhere, as documented. Otherwise members wait for each other.
func TestOverlappingShrinksThatBlockNeedOneOrder(t *testing.T) {
	shrink := func(alike bool) error {
		return banyan.Simulate(4, banyan.Simulation{}, func(w *banyan.World) error {
			green, orange, err := overlapping(w.Comm())
			if err != nil {
				return err
			}
			both := []*banyan.Comm{green, orange}
			if !alike && w.Comm().Rank() == 2 {
				slices.Reverse(both)
			}
			for _, c := range both {
				if c == nil {
					continue
				}
				if _, err := c.Shrink(); err != nil {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(t, shrink(true))
	require.ErrorIs(t, shrink(false), sim.ErrDeadlock)
}

// Requests of agreements can be mixed with others in sets, and overlap with all other operations.
func TestIagreeAmongOtherRequests(t *testing.T) {
	ranktest.EverySize(t, func(c *banyan.Comm) error {
		n, me := c.Size(), c.Rank()
		in := make([]byte, 8)
		agree, shrink := c.Iagree(1<<me), c.Ishrink()
		reqs := []banyan.Request{
			c.Irecv(in, (me+n-1)%n, 1), agree.Request(), shrink.Request(), c.Isend(make([]byte, 8), (me+1)%n, 1),
		}
		if err := c.Barrier(); err != nil { // while they are under way
			return err
		}
		seen := make([]bool, len(reqs))
		for range reqs {
			i, st, err := banyan.WaitAny(reqs)
			if err != nil || i < 0 || seen[i] || i != 0 && st != (banyan.Status{}) {
				return fmt.Errorf("request %d: %+v, %w", i, st, err)
			}
			seen[i] = true
		}
		want := uint64(0)
		if n == 1 {
			want = 1
		}
		word, into := agree.Value(), shrink.Value()
		if again, err := agree.Wait(); err != nil || again != word || word != want || into == nil {
			return fmt.Errorf("%x, %v, %w", word, into, err)
		}
		for done := false; !done; {
			var err error
			var got uint64
			other := c.Iagree(3)
			for !done && err == nil {
				other.Request().Cancel() // an agreement cannot be cancelled
				if got, done, err = other.Test(); !done && got != 0 {
					return fmt.Errorf("the value %d before the end", got)
				}
			}
			if err != nil || got != 3 {
				return fmt.Errorf("%d, %w", got, err)
			}
		}
		_, err := c.Iagree(word).Wait()
		return errors.Join(err, into.Barrier())
	})
}

// A wait for an agreement ends with its context. The agreement goes on, and can be waited for
// again.
func TestIagreeOutlivesTheContextOfAWait(t *testing.T) {
	require.NoError(t, banyan.Simulate(2, banyan.Simulation{}, func(w *banyan.World) error {
		c := w.Comm()
		if c.Rank() == 1 {
			if _, err := c.Recv(nil, 0, 1); err != nil {
				return err
			}
			flag, err := c.Agree(6)
			if flag != 2 {
				return fmt.Errorf("%d, %w", flag, err)
			}
			return err
		}
		agree := c.Iagree(3)
		reqs := []banyan.Request{agree.Request()}
		ended, end := context.WithCancel(context.Background())
		end()
		reqs[0] = reqs[0].WithContext(ended)
		_, one := reqs[0].Wait()
		all := banyan.WaitAll(reqs)
		_, _, any := banyan.WaitAny(reqs)
		for _, err := range []error{one, all, any} {
			if !errors.Is(err, context.Canceled) {
				return fmt.Errorf("want the context's error: %w", err)
			}
		}
		if err := c.Send(nil, 1, 1); err != nil {
			return err
		}
		reqs[0] = reqs[0].WithContext(context.Background())
		if err := banyan.WaitAll(reqs); err != nil || agree.Value() != 2 {
			return fmt.Errorf("%d, %w", agree.Value(), err)
		}
		return nil
	}))
}

// A rank that waits for an agreement starts no collective meanwhile, so it answers ranks that wait for it in one,
// whatever ends its own wait: a context, or another request.
func TestWaitsForAgreementsAnswerCollectives(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for name, agrees := range map[string]func(*banyan.Comm) error{
		"shrink": func(c *banyan.Comm) error { return second(c.WithContext(ctx).Shrink()) },
		"bound":  func(c *banyan.Comm) error { return second(c.WithContext(ctx).Ishrink().Wait()) },
		"wait any": func(c *banyan.Comm) error {
			_, _, err := banyan.WaitAny([]banyan.Request{c.Ishrink().Request()})
			return err
		},
	} {
		require.NoError(t, banyan.Simulate(3, banyan.Simulation{
			Faults:    banyan.Kill(2, time.Millisecond),
			Configure: func(cfg *sim.Config) { cfg.MaxTime = fabric.Time(time.Second) },
		}, func(w *banyan.World) error {
			c := w.Comm()
			if _, err := c.Recv(nil, 2, 1); !errors.Is(err, banyan.ErrProcFailed) {
				return fmt.Errorf("rank 2 should be dead: %w", err)
			}
			if c.Rank() == 1 {
				w.Sleep(time.Millisecond) // rank 0 is in the broadcast
				return agrees(c)
			}
			if err := c.Bcast(make([]byte, 8), 1); !errors.Is(err, banyan.ErrProcFailed) {
				return fmt.Errorf("broadcast of a rank that has given up: %w", err)
			}
			return second(c.Shrink())
		}), name)
	}
}

// Ranks that call different operations all get an error, and the next operations work.
func TestAgreeMeetsShrink(t *testing.T) {
	require.NoError(t, banyan.Simulate(5, banyan.Simulation{}, func(w *banyan.World) error {
		c := w.Comm()
		for odd := range c.Size() {
			var err error
			if c.Rank() == odd {
				_, err = c.Shrink()
			} else if flag, aerr := c.Agree(9); flag == 9 {
				err = aerr
			}
			if !errors.Is(err, banyan.ErrArgument) {
				return fmt.Errorf("want an argument's error: %w", err)
			}
			if flag, err := c.Agree(uint64(odd)); err != nil || flag != uint64(odd) {
				return fmt.Errorf("afterwards: %d, %w", flag, err)
			}
		}
		return nil
	}))
}

// On a freed communicator no agreement starts. Those under way end as usual.
func TestAgreeOnTheFreed(t *testing.T) {
	require.NoError(t, banyan.Simulate(3, banyan.Simulation{}, func(w *banyan.World) error {
		c, err := w.Comm().Dup()
		if err != nil {
			return err
		}
		agree, shrink := c.Iagree(7<<c.Rank()), c.Ishrink()
		if err := c.Free(); err != nil {
			return err
		}
		if _, err := c.Agree(1); !errors.Is(err, banyan.ErrClosed) {
			return fmt.Errorf("agree: %w", err)
		}
		if into, err := c.Ishrink().Wait(); !errors.Is(err, banyan.ErrClosed) || into != nil {
			return fmt.Errorf("shrink: %v, %w", into, err)
		}
		flag, err := agree.Wait()
		left, serr := shrink.Wait()
		if err = errors.Join(err, serr); err != nil || flag != 4 {
			return fmt.Errorf("%d, %w", flag, err)
		}
		return left.Barrier()
	}))
}

// Finalize ends the agreements under way, with or without waiting goroutines. A finalized rank has
// departed; that is no failure.
func TestFinalizeEndsAgreements(t *testing.T) {
	require.NoError(t, banyan.Simulate(3, banyan.Simulation{}, func(w *banyan.World) error {
		c := w.Comm()
		for peer := range c.Size() { // all learn of each other's departure
			if _, err := c.Sendrecv(nil, peer, 1, nil, peer, 1); err != nil {
				return err
			}
		}
		lost, left := c.Iagree(0), c.Iagree(0)
		if c.Rank() == 0 { // the others cannot agree without it
			if err := w.Finalize(); err != nil {
				return err
			}
			if _, err := lost.Wait(); !errors.Is(err, banyan.ErrClosed) {
				return fmt.Errorf("under way: %w", err)
			}
			if _, err := c.Agree(1); !errors.Is(err, banyan.ErrClosed) {
				return fmt.Errorf("afterwards: %w", err)
			}
			return nil
		}
		_, err := lost.Wait()
		_ = left // no goroutine waits for it
		return err
	}))
}

// Before a rank departs it passes on decisions and revocations, also to ranks to which it never
// sent a message.
func TestLeavingAtOnceKeepsNothingFromOthers(t *testing.T) {
	for seed := range uint64(ranktest.Often(40, 1000)) {
		n := 2 + int(seed)%11
		got := make([]uint64, n)
		require.NoError(t, banyan.Simulate(n, banyan.Simulation{Seed: seed}, func(w *banyan.World) error {
			d, err := w.Comm().Dup()
			if err != nil {
				return err
			}
			if got[w.Comm().Rank()], err = w.Comm().Agree(^(uint64(1) << w.Comm().Rank())); err != nil {
				return err
			}
			if w.Comm().Rank() == n-1 {
				return d.Revoke() // and it departs
			}
			_, err = d.Recv(nil, (d.Rank()+1)%n, 1)
			if errors.Is(err, banyan.ErrDeparted) { // that rank learned of it before, and departed
				for range 1000 {
					if d.IsRevoked() {
						return nil
					}
					w.Sleep(10 * time.Microsecond)
				}
			}
			if !errors.Is(err, banyan.ErrRevoked) {
				return fmt.Errorf("want the revocation: %w", err)
			}
			return nil
		}), "seed %d, %d ranks", seed, n)
		for rank, flag := range got {
			require.Equal(t, ^(uint64(1)<<n - 1), flag, "seed %d, rank %d of %d", seed, rank, n)
		}
	}
}

// The unaware engine agrees and shrinks too.
func TestRecoveryUnaware(t *testing.T) {
	s := &scene{n: 4, at: map[int]uint64{2: uint64(time.Millisecond)}}
	require.NoError(t, s.run(func(w *banyan.World) error {
		if w.Comm().Rank() == 2 {
			w.Sleep(time.Hour)
		}
		if flag, err := w.Comm().Agree(^(uint64(1) << w.Comm().Rank())); ranktest.WantFailed(err, 2) != nil ||
			flag != ^uint64(0b1011) {
			return fmt.Errorf("%x, %w", flag, err)
		}
		left, err := w.Comm().Shrink()
		if err != nil {
			return err
		}
		return working(left)
	}, banyan.WithAware(false)))
}
