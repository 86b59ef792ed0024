package collectives

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// way is the design and the tree of a communicator's collectives.
type way struct {
	design banyan.Design
	tree   banyan.Tree
}

// ways are all designs with all trees.
func ways() (out []way) {
	for _, tree := range []banyan.Tree{banyan.AutoTree, banyan.BinomialTree, banyan.KNomialTree(3), banyan.BinaryTree,
		banyan.ChainTree, banyan.FlatTree, banyan.NodeTree} {
		for _, d := range []banyan.Design{banyan.Rebalance, banyan.LookupAvoiding, banyan.Reroute, banyan.Unaware} {
			out = append(out, way{d, tree})
		}
		if tree == banyan.AutoTree { // of the designs with trees it has those of Rebalance
			out = append(out, way{banyan.Corrected, tree})
		}
	}
	return out
}

// A tree is the one that was set, and is read as it is written. Wrong trees are refused.
func TestTrees(t *testing.T) {
	require.NoError(t, banyan.Simulate(1, banyan.Simulation{
		Options: []banyan.Option{banyan.WithTree(banyan.KNomialTree(8)), banyan.WithDesign(banyan.Reroute)},
	}, func(w *banyan.World) error {
		c := w.Comm()
		require.Equal(t, "knomial:8", c.Tree().String())
		require.Equal(t, banyan.Reroute, c.Design())
		for _, way := range ways() {
			read, err := banyan.ParseTree(way.tree.String())
			require.NoError(t, errors.Join(err, c.SetTree(way.tree), c.SetDesign(way.design)))
			require.Equal(t, []any{way.tree, way.tree, way.design}, []any{read, c.Tree(), c.Design()})
		}
		for _, wrong := range []banyan.Tree{banyan.KNomialTree(1), banyan.KNomialTree(65537), banyan.NodeTree + 1} {
			require.ErrorIs(t, c.SetTree(wrong), banyan.ErrArgument, "%v", wrong)
			require.Equal(t, banyan.NodeTree, c.Tree())
			_, err := banyan.Init(banyan.WithTree(wrong))
			require.ErrorIs(t, err, banyan.ErrArgument)
		}
		_, err := banyan.ParseTree("oak")
		require.ErrorIs(t, err, banyan.ErrArgument)
		return nil
	}))
}

// do makes a blocking call, or the same non-blocking call, and waits for its end.
func do(nonblocking bool, call func() error, start func() banyan.Request) error {
	if !nonblocking {
		return call()
	}
	return wait(start())
}

// everyKind checks every collective with blocks of size words and a root, which may have failed.
// Reductions keep the order once and commute once. It makes all calls even if one fails: the other
// ranks do so too. The data of rounds differ.
func everyKind(c *banyan.Comm, round, size, root int, nonblocking bool, failed ...int) error {
	var errs []error
	for i, kind := range []ranktest.CollectiveKind{
		ranktest.Barrier, ranktest.Bcast, ranktest.Reduce, ranktest.Reduce, ranktest.Allreduce, ranktest.Allreduce,
		ranktest.Gather, ranktest.Scatter, ranktest.Allgather, ranktest.InPlace,
		ranktest.Alltoall, ranktest.Allgatherv, ranktest.Gatherv, ranktest.Scatterv, ranktest.Alltoallv,
		ranktest.ReduceScatter, ranktest.ReduceScatterBlock, ranktest.Scan, ranktest.Exscan, ranktest.Scan, ranktest.Exscan,
	} {
		o := ranktest.Collective{Kind: kind, Number: 32*round + i, Root: root, Size: size, Typed: (round+i)%2 == 0}
		errs = append(errs, o.Check(c, nonblocking, failed...))
	}
	return errors.Join(errs...)
}

// others are the ranks 0 to n-1 without some of them.
func others(n int, without ...int) []int {
	return slices.DeleteFunc(ranktest.Iota(n), func(rank int) bool { return slices.Contains(without, rank) })
}

// without has the living ranks learn of the failed ones and validate.
func without(c *banyan.Comm, dead []int) error {
	for _, rank := range dead {
		if _, err := c.Recv(nil, rank, 1); !errors.Is(err, banyan.ErrProcFailed) {
			return fmt.Errorf("rank %d should be dead: %w", rank, err)
		}
	}
	if len(dead) == 0 {
		return nil
	}
	failed, err := c.Validate()
	if err == nil && failed.Size() != len(dead) {
		err = fmt.Errorf("%d ranks left out, want %d", failed.Size(), len(dead))
	}
	return err
}

// oracleCase runs one world of n ranks, some of them dead, over all ways.
func oracleCase(t *testing.T, n int, dead []int, sizes []int, uniform bool, over []way) {
	t.Helper()
	nodes := func(cfg *sim.Config) { cfg.Topology.ProcsPerNode = 1 + (n+2)/3 }
	kill := func(s *sim.Sim) error {
		var err error
		for _, rank := range dead {
			err = errors.Join(err, s.Kill(proc.ID(rank), fabric.Time(time.Millisecond)))
		}
		return err
	}
	left := others(n, dead...)
	require.NoError(t, banyan.Simulate(n, banyan.Simulation{Configure: nodes, Faults: kill},
		func(w *banyan.World) error {
			c := w.Comm()
			if err := without(c, dead); err != nil {
				return err
			}
			if uniform {
				if err := c.SetUniformity(banyan.UniformCollectives); err != nil {
					return err
				}
			}
			round := 0
			for j, way := range over {
				if err := errors.Join(c.SetDesign(way.design), c.SetTree(way.tree)); err != nil {
					return err
				}
				if way.design == banyan.Unaware && len(dead) > 0 {
					if err := c.Barrier(); !errors.Is(err, banyan.ErrArgument) {
						return fmt.Errorf("unaware of the dead: %w", err)
					}
					continue
				}
				for i, size := range sizes {
					for k, root := range []int{left[0], (i + n/2) % n} {
						if err := everyKind(c, round, size, root, (i+j+k)%2 == 1, dead...); err != nil {
							return fmt.Errorf("%v %s: %w", way.design, way.tree, err)
						}
						round++
					}
				}
			}
			return nil
		}), "%d ranks without %v", n, dead)
}

// Each collective over each tree in each design gives the result of a sequential program among the
// living ranks.
func TestCollectivesAgainstOracle(t *testing.T) {
	counts, sets, long := []int{1, 2, 3, 5, 8, 13}[:ranktest.Scaled(6, 2)], 1, os.Getenv("BANYAN_LONG") != ""
	if long {
		counts, sets = append(ranktest.Iota(18)[1:], 32, 64), 16
	}
	for _, n := range counts {
		t.Run(fmt.Sprint(n), func(t *testing.T) { // alone: -run 'Oracle/^32$'
			r := rand.New(rand.NewPCG(7, uint64(n)))
			sizes := []int{0, 1, 37}
			if n <= 5 || n <= 8 && long {
				sizes = append(sizes, 2500)
			}
			oracleCase(t, n, nil, sizes, false, ways())
			if n == 1 {
				return
			}
			oracleCase(t, n, []int{0}, sizes[1:3], false, ways())
			for i := range sets {
				oracleCase(t, n, r.Perm(n)[:1+r.IntN(n-1)], sizes[1:], (n+i)%2 == 1, ways())
			}
		})
	}
}

// Long messages go in segments, and long reductions in parts.
func TestLongCollectivesAgainstOracle(t *testing.T) {
	over := []way{{banyan.Rebalance, banyan.AutoTree}, {banyan.Rebalance, banyan.ChainTree}, {banyan.LookupAvoiding, banyan.BinomialTree}}
	counts, over := []int{3, 2, 4}[:ranktest.Scaled(3, 1)], over[:ranktest.Scaled(3, 2)]
	if os.Getenv("BANYAN_LONG") != "" {
		counts, over = []int{2, 3, 4, 5, 6, 7, 8, 11}, ways()
	}
	for _, n := range counts {
		oracleCase(t, n, nil, []int{70_001}, n == 3, over)
	}
}

// Values with places, bits, and a length that is no multiple of any number of ranks.
func TestOperations(t *testing.T) {
	require.NoError(t, banyan.Simulate(5, banyan.Simulation{
		Faults: func(s *sim.Sim) error { return s.Kill(4, fabric.Time(time.Millisecond)) },
	}, func(w *banyan.World) error {
		c := w.Comm()
		if err := without(c, []int{4}); err != nil {
			return err
		}
		me := c.Rank()
		type pair = banyan.Located[int32]
		at := []pair{{Value: int32(me % 2), Place: me}, {Value: int32(-me), Place: me}}
		low, high := slices.Clone(at), slices.Clone(at)
		bits := [][]uint16{{uint16(3 << me)}, {uint16(3 << me)}, {uint16(3 << me)}}
		err := errors.Join(
			banyan.AllreduceLocated(c, low, low, banyan.MinLoc), banyan.AllreduceLocated(c, high, high, banyan.MaxLoc),
			banyan.Allreduce(c, bits[0], bits[0], banyan.And), banyan.Allreduce(c, bits[1], bits[1], banyan.Or),
			banyan.Allreduce(c, bits[2], bits[2], banyan.Xor),
		)
		if err != nil {
			return err
		}
		if want := []pair{{Value: 0, Place: 0}, {Value: -3, Place: 3}}; !slices.Equal(low, want) {
			return fmt.Errorf("lowest %v", low)
		}
		if want := []pair{{Value: 1, Place: 1}, {Value: 0, Place: 0}}; !slices.Equal(high, want) {
			return fmt.Errorf("highest %v", high)
		}
		if bits[0][0] != 0 || bits[1][0] != 31 || bits[2][0] != 3^6^12^24 {
			return fmt.Errorf("bits %v", bits)
		}
		return banyan.ReduceLocated(c, at, at, banyan.MinLoc, 4) // the root has failed: nothing to do
	}))
}

// A rank dies during a collective. All others get an error, each in its own operation, validate,
// and go on.
func TestCollectivesAndDeaths(t *testing.T) {
	seeds := ranktest.Seeds(12)
	if os.Getenv("BANYAN_LONG") != "" {
		seeds = 3000
	}
	const together = 250
	for first := uint64(0); first < seeds; first += together { // alone: -run 'Deaths/^750$'
		t.Run(fmt.Sprint(first), func(t *testing.T) {
			for seed := first; seed < min(first+together, seeds); seed++ {
				collectivesAndDeath(t, seed)
			}
		})
	}
}

// collectivesAndDeath runs the death with this seed.
func collectivesAndDeath(t *testing.T, seed uint64) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 3))
	n := 2 + r.IntN(8)
	way := ways()[r.IntN(len(ways()))]
	victim, size := r.IntN(n), []int{0, 1, 40, 3000}[r.IntN(4)]
	at := fabric.Time(50_000 + r.IntN(400_000))
	left := others(n, victim)
	s := banyan.Simulation{
		Seed:   seed,
		Faults: func(s *sim.Sim) error { return s.Kill(proc.ID(victim), at) },
		Options: []banyan.Option{banyan.WithDesign(way.design), banyan.WithTree(way.tree),
			banyan.WithDetection(10*time.Millisecond, 50*time.Millisecond)},
	}
	require.NoError(t, banyan.Simulate(n, s, func(w *banyan.World) error {
		c := w.Comm()
		var err error
		for i := 0; err == nil; i++ {
			err = everyKind(c, i, size, i%n, false)
		}
		if !errors.Is(err, banyan.ErrProcFailed) {
			return err
		}
		if failed, err := c.Validate(); err != nil || failed.Size() != 1 {
			return fmt.Errorf("validate: %d: %w", failed.Size(), err)
		}
		if way.design == banyan.Unaware {
			return nil
		}
		return errors.Join(everyKind(c, 0, size, left[0], false, victim), everyKind(c, 1, size, victim, false, victim),
			everyKind(c, 2, size, left[len(left)-1], false, victim))
	}), "seed %d: %d ranks, %v %s, %d dies at %v, %d elements", seed, n, way.design, way.tree, victim, at, size)
}

// No rank leaves a barrier before all have entered it: over any tree, in any design, blocking or
// not, with validated failed ranks too, whichever rank is late.
func TestBarrierWaitsForAll(t *testing.T) {
	for _, n := range []int{2, 3, 5, 8, 13}[:ranktest.Scaled(5, 3)] {
		for _, count := range []int{0, n / 3} {
			dead := ranktest.Iota(n)[1 : 1+count]
			kill := func(s *sim.Sim) (err error) {
				for _, rank := range dead {
					err = errors.Join(err, s.Kill(proc.ID(rank), fabric.Time(time.Millisecond)))
				}
				return err
			}
			require.NoError(t, banyan.Simulate(n, banyan.Simulation{Faults: kill}, func(w *banyan.World) error {
				if err := without(w.Comm(), dead); err != nil {
					return err
				}
				return allBarriers(w, n, dead)
			}), "%d ranks without %v", n, dead)
		}
	}
}

func allBarriers(w *banyan.World, n int, dead []int) error {
	c := w.Comm()
	step := time.Duration(0)
	for _, way := range ways() {
		if err := c.SetDesign(way.design); err != nil {
			return err
		}
		if err := c.SetTree(way.tree); err != nil {
			return err
		}
		if way.design == banyan.Unaware && len(dead) > 0 {
			continue
		}
		for late := range n {
			if slices.Contains(dead, late) {
				continue
			}
			step++
			until := time.Second + step*time.Millisecond
			if c.Rank() == late {
				w.Sleep(until - w.Now())
			}
			do := c.Barrier
			if step%2 == 0 {
				do = func() error { return wait(c.Ibarrier()) }
			}
			if err := do(); err != nil {
				return err
			}
			if now := w.Now(); now < until {
				return fmt.Errorf("%v %s: left at %v, and rank %d came at %v", way.design, way.tree, now, late, until)
			}
		}
	}
	return nil
}

func wait(r banyan.Request) error {
	_, err := r.Wait()
	return err
}
