package communicators

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// Results at every root. An operation that does not commute shows the order of ranks.
func TestCollectivesAtEverySize(t *testing.T) {
	ranktest.EverySize(t, func(c *banyan.Comm) error { return ranktest.CheckCollectives(c, nil) })
}

func TestTypedHelpers(t *testing.T) {
	ranktest.EverySize(t, func(c *banyan.Comm) error {
		n := c.Size()
		sum, top := []float64{float64(c.Rank()), 1}, []int32{int32(c.Rank())}
		err := errors.Join(
			banyan.Allreduce(c, sum, sum, banyan.Sum), banyan.Allreduce(c, top, top, banyan.Max), c.Barrier())
		if err != nil || sum[0] != float64(n*(n-1)/2) || sum[1] != float64(n) || top[0] != int32(n-1) {
			return fmt.Errorf("sum %v, max %v of %d ranks: %w", sum, top, n, err)
		}
		next, prev := (c.Rank()+1)%n, (c.Rank()+n-1)%n
		r := banyan.Isend(c, []uint16{uint16(c.Rank()), 7}, next, 1)
		in := make([]uint16, 5)
		st, err := banyan.Recv(c, in, prev, 1)
		if err != nil || st.Count != 2 || in[0] != uint16(prev) || in[1] != 7 {
			return fmt.Errorf("got %v, %+v: %w", in, st, err)
		}
		_, err = r.Wait()
		return err
	})
}

func TestOddMessageIsNoSliceOfNumbers(t *testing.T) {
	require.NoError(t, banyan.Simulate(1, banyan.Simulation{}, func(w *banyan.World) error {
		r := w.Comm().Isend([]byte{1, 2, 3}, 0, 0)
		if _, err := banyan.Recv(w.Comm(), make([]int16, 4), 0, 0); !errors.Is(err, banyan.ErrArgument) {
			return fmt.Errorf("three bytes as int16: %v", err)
		}
		_, err := r.Wait()
		return err
	}))
}

// token checks that a communicator works and is separate: its ranks sum their numbers, and it does
// not receive a message of the parent.
func token(c, parent *banyan.Comm) error {
	if c == nil {
		return nil
	}
	n := []int{c.Rank() + 1}
	if err := banyan.Allreduce(c, n, n, banyan.Sum); err != nil {
		return err
	}
	if want := c.Size() * (c.Size() + 1) / 2; n[0] != want {
		return fmt.Errorf("%s: ranks sum to %d, want %d", c.Name(), n[0], want)
	}
	stray := parent.Isend([]byte("stray"), parent.Rank(), 3)
	own := c.Isend([]byte("own"), c.Rank(), 3)
	buf := make([]byte, 8)
	st, err := c.Recv(buf, banyan.AnySource, banyan.AnyTag)
	if err != nil || string(buf[:st.Count]) != "own" {
		return fmt.Errorf("%s received %q: %w", c.Name(), buf[:st.Count], err)
	}
	_, err = parent.Recv(buf, parent.Rank(), 3)
	_, e1 := stray.Wait()
	_, e2 := own.Wait()
	return errors.Join(err, e1, e2)
}

func TestSplit(t *testing.T) {
	ranktest.EverySize(t, func(c *banyan.Comm) error {
		color, key := c.Rank()%3, -c.Rank() // the last rank of a color comes first
		if c.Rank() == 5 {
			color = banyan.Undefined
		}
		s, err := c.Split(color, key)
		if err != nil || (s == nil) != (c.Rank() == 5) {
			return fmt.Errorf("split gave %v: %w", s, err)
		}
		if s == nil {
			return nil
		}
		var want []int
		for r := c.Size() - 1; r >= 0; r-- {
			if r%3 == color && r != 5 {
				want = append(want, r)
			}
		}
		got, err := s.Group().Translate(ranktest.Iota(s.Size()), c.Group())
		if err != nil || !slices.Equal(got, want) {
			return fmt.Errorf("color %d has the ranks %v, want %v: %w", color, got, want, err)
		}
		node, err := s.SplitByNode(0)
		if err != nil {
			return err
		}
		return errors.Join(token(s, c), token(node, s))
	})
}

func TestCreate(t *testing.T) {
	ranktest.EverySize(t, func(c *banyan.Comm) error {
		half, err := c.Group().Include(ranktest.Iota((c.Size() + 1) / 2)...)
		if err != nil {
			return err
		}
		mine := half
		if half.Rank() == banyan.Undefined { // callers pass different halves
			mine = c.Group().Difference(half)
		}
		a, err := c.Create(mine)
		if err != nil || a == nil || a.Size() != mine.Size() {
			return fmt.Errorf("create: %v, %w", a, err)
		}
		if half.Rank() == banyan.Undefined {
			return token(a, c) // the others do not call CreateGroup at all
		}
		b, err := c.CreateGroup(half, 4)
		if err != nil {
			return err
		}
		again, err := c.CreateGroup(half, 4)
		if err != nil || again.Compare(b) != banyan.Congruent || b.Compare(b) != banyan.Identical {
			return fmt.Errorf("the second of the same group and tag: %w", err)
		}
		return errors.Join(token(a, c), token(b, c), token(again, b))
	})
}

// A call that its context ends before the others come counts like theirs, and one with a context that has ended
// does not: the next one of the same group and tag gives all members the same communicator.
func TestCreateGroupThatWasLeft(t *testing.T) {
	ended, end := context.WithCancel(context.Background())
	end()
	ranktest.EverySize(t, func(c *banyan.Comm) error {
		of := c
		if c.Rank() == 0 {
			if _, err := c.WithContext(ended).CreateGroup(c.Group(), 4); !errors.Is(err, context.Canceled) {
				return fmt.Errorf("an ended context: %w", err)
			}
			of = c.WithContext(ranktest.EndsOnceAsked())
		}
		if _, err := of.CreateGroup(c.Group(), 4); c.Rank() > 0 && err != nil {
			return err
		}
		next, err := c.CreateGroup(c.Group(), 4)
		if err != nil {
			return err
		}
		return token(next, c)
	})
}

func TestGroups(t *testing.T) {
	require.NoError(t, banyan.Simulate(6, banyan.Simulation{}, func(w *banyan.World) error {
		world := w.Comm().Group()
		pick := func(ranks ...int) banyan.Group {
			g, err := world.Include(ranks...)
			if err != nil {
				panic(err)
			}
			return g
		}
		list := func(g banyan.Group) string {
			r, err := g.Translate(ranktest.Iota(g.Size()), world)
			return fmt.Sprint(r, err)
		}
		a, b := pick(4, 1, 3), pick(3, 0, 4)
		without, err := world.Exclude(0, 5)
		for _, c := range []struct{ got, want string }{
			{list(a.Union(b)), "[4 1 3 0] <nil>"},
			{list(a.Intersection(b)), "[4 3] <nil>"},
			{list(a.Difference(b)), "[1] <nil>"},
			{list(without), "[1 2 3 4] <nil>"},
			{list(banyan.Group{}.Union(a)), "[4 1 3] <nil>"},
			{a.Compare(pick(4, 1, 3)).String(), "identical"},
			{a.Compare(pick(1, 3, 4)).String(), "similar"},
			{a.Compare(b).String(), "unequal"},
			{banyan.Group{}.Compare(a.Intersection(pick(0))).String(), "identical"},
		} {
			if c.got != c.want {
				return fmt.Errorf("got %s, want %s (%v)", c.got, c.want, err)
			}
		}
		to, err := a.Translate([]int{0, 1, banyan.ProcNull}, b)
		if err != nil || !slices.Equal(to, []int{2, banyan.Undefined, banyan.ProcNull}) {
			return fmt.Errorf("translated to %v: %w", to, err)
		}
		for _, wrong := range [][]int{{6}, {-1}, {2, 2}} {
			if _, err := world.Include(wrong...); !errors.Is(err, banyan.ErrArgument) {
				return fmt.Errorf("include %v: %v", wrong, err)
			}
		}
		return nil
	}))
}

func TestIntercommunicator(t *testing.T) {
	for _, n := range []int{2, 3, 5, 8} {
		for _, high := range []bool{false, true} {
			require.NoError(t, banyan.Simulate(n, banyan.Simulation{}, func(w *banyan.World) error {
				return bridge(w.Comm(), high)
			}), "%d ranks, high %v", n, high)
		}
	}
}

// bridge joins the even and the odd ranks, communicates across, and merges them.
func bridge(c *banyan.Comm, high bool) error {
	odd := c.Rank() % 2
	side, err := c.Split(odd, 0)
	if err != nil {
		return err
	}
	inter, err := side.CreateInter(0, c, 1-odd, 9)
	if err != nil {
		return err
	}
	if !inter.IsInter() || inter.Size() != side.Size() || inter.RemoteGroup().Size() != c.Size()-side.Size() {
		return fmt.Errorf("%s: %d here, %d there", inter.Name(), inter.Size(), inter.RemoteGroup().Size())
	}
	// Each rank sends its world rank to rank 0 of the other side.
	r := banyan.Isend(inter, []int{c.Rank()}, 0, 2)
	if inter.Rank() == 0 {
		for from := range inter.RemoteGroup().Size() {
			var got [1]int
			if _, err := banyan.Recv(inter, got[:], from, 2); err != nil || got[0] != 2*from+1-odd {
				return fmt.Errorf("from %d of the other side: %v, %w", from, got, err)
			}
		}
	}
	if _, err := r.Wait(); err != nil {
		return err
	}
	if err := inter.Barrier(); err != nil {
		return fmt.Errorf("a barrier between groups: %w", err)
	}
	all, err := inter.Merge(high == (odd == 0)) // the even ranks come last if high
	if err != nil {
		return err
	}
	first := 0
	if high {
		first = 1
	}
	r0, err := all.Group().Translate([]int{0}, c.Group())
	if err != nil || all.Size() != c.Size() || r0[0] != first {
		return fmt.Errorf("merged: %d ranks, first is %v: %w", all.Size(), r0, err)
	}
	same, err := inter.Merge(true) // both the same: the side of process 0 comes first
	if err != nil {
		return err
	}
	r0, err = same.Group().Translate([]int{0}, c.Group())
	if err != nil || r0[0] != 0 {
		return fmt.Errorf("merged alike: first is %v: %w", r0, err)
	}
	return errors.Join(token(all, c), token(same, all))
}

// With a member known to have failed a collective fails before it sends.
func TestCollectiveAfterAFailure(t *testing.T) {
	require.NoError(t, ranktest.WithDeath(3, func(c *banyan.Comm) error {
		if _, err := c.Recv(make([]byte, 1), 2, 0); err == nil {
			return errors.New("the dead has sent")
		}
		for _, err := range []error{c.Barrier(), c.Bcast(nil, 0), banyan.Allreduce(c, []int{1}, []int{1}, banyan.Sum)} {
			if err := ranktest.WantFailed(err, 2); err != nil {
				return err
			}
		}
		// The living ranks go on in a communicator of their own.
		alive, err := c.Group().Exclude(2)
		if err != nil {
			return err
		}
		s, err := c.CreateGroup(alive, 0)
		if err != nil {
			return err
		}
		return token(s, c)
	}))
}

// A split that fails at some ranks only does not put the ranks out of step: the next communicator
// is the same everywhere.
func TestCreateAfterASplitThatFailed(t *testing.T) {
	uneven := 0
	for step := uint64(1); step <= 40; step++ {
		splits := make([]error, 4)
		err := banyan.Simulate(4, banyan.Simulation{
			Faults: func(s *sim.Sim) error { return s.KillAtStep(2, step) },
		}, func(w *banyan.World) error {
			c := w.Comm()
			_, splits[c.Rank()] = c.Split(0, 0)
			if c.Rank() == 2 {
				return nil
			}
			alive, err := c.Group().Exclude(2)
			if err != nil {
				return err
			}
			s, err := c.Create(alive)
			if err != nil {
				return err
			}
			sum := []int{1}
			if err := banyan.Allreduce(s, sum, sum, banyan.Sum); err != nil || sum[0] != 3 {
				return fmt.Errorf("sum %d, want 3: %w", sum[0], err)
			}
			return nil
		})
		if errors.Is(err, sim.ErrDeadlock) {
			continue // a rank that has not met the failed rank waits in Split
		}
		require.NoError(t, err, "step %d", step)
		if (splits[0] == nil) != (splits[3] == nil) {
			uneven++
		}
	}
	require.NotZero(t, uneven, "no split failed at some ranks only")
}

// A rank with a shorter buffer gets an error, as do all below it in a tree that was chosen. No rank waits for it.
func TestBcastOfTwoLengths(t *testing.T) {
	const short = 1 // 3, 5 and 7 are below it
	for _, chosen := range []bool{false, true} {
		errs := make([]error, 8)
		require.NoError(t, banyan.Simulate(8, banyan.Simulation{}, func(w *banyan.World) error {
			c := w.Comm()
			if chosen {
				if err := c.SetTree(banyan.BinomialTree); err != nil {
					return err
				}
			}
			n := 100
			if c.Rank() == short {
				n = 50
			}
			errs[c.Rank()] = c.Bcast(make([]byte, n), 0)
			return nil
		}))
		for rank, err := range errs {
			fails := rank == short || chosen && rank%2 == 1
			require.Equal(t, fails, errors.Is(err, banyan.ErrArgument), "chosen %v, rank %d: %v", chosen, rank, err)
		}
	}
}

// The zero Group is empty. A union with it has the universe of the other group.
func TestZeroGroup(t *testing.T) {
	require.NoError(t, banyan.Simulate(3, banyan.Simulation{}, func(w *banyan.World) error {
		var zero banyan.Group
		all := w.Comm().Group()
		for _, g := range []banyan.Group{zero.Union(all), all.Union(zero)} {
			if g.Rank() != w.Comm().Rank() || g.Compare(all) != banyan.Identical {
				return fmt.Errorf("rank %d of the union is %d", w.Comm().Rank(), g.Rank())
			}
		}
		if zero.Size() != 0 || zero.Rank() != banyan.Undefined || zero.Intersection(all).Size() != 0 {
			return errors.New("the zero Group is not empty")
		}
		return nil
	}))
}

// A rank outside the group gets no communicator and no error.
func TestCreateGroupOfOthers(t *testing.T) {
	for _, level := range []banyan.Uniformity{banyan.UniformNothing, banyan.UniformCreation} {
		ranktest.EverySize(t, func(c *banyan.Comm) error {
			var told error
			c.SetErrorHandler(func(_ *banyan.Comm, err error) { told = err })
			if err := c.SetUniformity(level); err != nil {
				return err
			}
			none, err := c.CreateGroup(banyan.Group{}, 1)
			if err == nil && none != nil {
				err = errors.New("the empty group has a communicator")
			}
			first, ferr := c.Group().Include(0)
			d, derr := c.CreateGroup(first, 2)
			if member := c.Rank() == 0; derr == nil && member != (d != nil) {
				derr = fmt.Errorf("member %v, communicator %v", member, d)
			}
			return errors.Join(err, ferr, derr, told, c.Barrier())
		})
	}
}
