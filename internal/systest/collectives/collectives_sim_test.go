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

// way is over which trees a communicator's collectives go.
type way struct {
	design banyan.Design
	tree   string
}

// ways are all designs with all trees.
func ways() (out []way) {
	for _, tree := range []string{"auto", "binomial", "knomial:3", "binary", "chain", "flat", "node"} {
		for _, d := range []banyan.Design{banyan.Rebalance, banyan.LookupAvoiding, banyan.Reroute, banyan.Unaware} {
			out = append(out, way{d, tree})
		}
	}
	return out
}

// then composes two maps x -> a*x+b of 32-bit numbers, each packed in a word: associative, and not commutative.
func then(f, g uint64) uint64 {
	a, b, c, d := uint32(f>>32), uint32(f), uint32(g>>32), uint32(g)
	return uint64(a*c)<<32 | uint64(b*c+d)
}

// given is element i of what a rank brings to an operation.
func given(rank, i int, round uint64) uint64 {
	x := (uint64(rank+1)<<32 ^ uint64(i+1) ^ round<<17) * 0x9e3779b97f4a7c15
	return (x ^ x>>29) | 1<<32 // maps that lose nothing
}

func givenBy(rank, n int, round uint64) []uint64 {
	out := make([]uint64, n)
	for i := range out {
		out[i] = given(rank, i, round)
	}
	return out
}

// oracle does each operation for one rank, and looks whether the outcome is the one computed here from what all have.
type oracle struct {
	c     *banyan.Comm
	left  []int // ranks
	round uint64
	begun bool // operations are begun and waited for
}

// do does an operation that blocks, or the same that is begun.
func (o *oracle) do(blocks func() error, begins func() banyan.Request) error {
	if !o.begun {
		return blocks()
	}
	_, err := begins().Wait()
	return err
}

const untouched = 0xfeedface

func blank(n int) []uint64 { return slices.Repeat([]uint64{untouched}, n) }

// folded is what a reduction of length n is to give.
func (o *oracle) folded(n int, op func(a, b uint64) uint64) []uint64 {
	out := givenBy(o.left[0], n, o.round)
	for _, rank := range o.left[1:] {
		for i := range out {
			out[i] = op(out[i], given(rank, i, o.round))
		}
	}
	return out
}

// gathered is what a gather of blocks of n gives, where there was nothing.
func (o *oracle) gathered(n int) []uint64 {
	out := blank(n * o.c.Size())
	for _, rank := range o.left {
		copy(out[rank*n:], givenBy(rank, n, o.round))
	}
	return out
}

// all does everything with buffers of n elements and that root, which may be gone.
func (o *oracle) all(n, root int) error {
	c, me := o.c, o.c.Rank()
	lives, top := slices.Contains(o.left, root), me == root
	whole := func() []uint64 {
		if top {
			return blank(n * c.Size())
		}
		return nil
	}
	mine := func() []uint64 { return givenBy(me, n, o.round) }
	var errs []error
	check := func(what string, err error, got, want []uint64) {
		if err == nil && !slices.Equal(got, want) {
			err = errors.New("wrong result")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s of %d from %d: %w", what, n, root, err))
		}
		o.round++
	}
	check("barrier", o.do(c.Barrier, c.IBarrier), nil, nil)

	buf, want := blank(n), givenBy(root, n, o.round)
	if top {
		buf = mine()
	} else if !lives {
		want = blank(n)
	}
	err := o.do(func() error { return banyan.Bcast(c, buf, root) }, func() banyan.Request { return banyan.IBcast(c, buf, root) })
	check("bcast", err, buf, want)

	for _, f := range []struct {
		name  string
		op    func(a, b uint64) uint64
		order banyan.Order
	}{{"ordered", then, banyan.InOrder}, {"sum", banyan.Sum[uint64], banyan.AnyOrder}} {
		buf = mine()
		err := o.do(func() error { return banyan.Reduce(c, buf, f.op, root, f.order) },
			func() banyan.Request { return banyan.IReduce(c, buf, f.op, root, f.order) })
		if want = buf; top { // those of the others are undefined
			want = o.folded(n, f.op)
		} else if !lives {
			want = mine()
		}
		check(f.name+" reduce", err, buf, want)
		buf = mine()
		err = o.do(func() error { return banyan.Allreduce(c, buf, f.op, f.order) },
			func() banyan.Request { return banyan.IAllreduce(c, buf, f.op, f.order) })
		check(f.name+" allreduce", err, buf, o.folded(n, f.op))
	}

	buf = whole()
	err = o.do(func() error { return banyan.Gather(c, mine(), buf, root) },
		func() banyan.Request { return banyan.IGather(c, mine(), buf, root) })
	if want = nil; top {
		want = o.gathered(n)
	}
	check("gather", err, buf, want)

	buf = blank(n)
	parts := whole()
	for i := range parts {
		parts[i] = given(root, i, o.round)
	}
	err = o.do(func() error { return banyan.Scatter(c, parts, buf, root) },
		func() banyan.Request { return banyan.IScatter(c, parts, buf, root) })
	if want = blank(n); lives {
		for i := range want {
			want[i] = given(root, me*n+i, o.round)
		}
	}
	check("scatter", err, buf, want)

	buf = blank(n * c.Size())
	err = o.do(func() error { return banyan.Allgather(c, mine(), buf) },
		func() banyan.Request { return banyan.IAllgather(c, mine(), buf) })
	check("allgather", err, buf, o.gathered(n))
	return errors.Join(errs...)
}

// without has the ranks that are left learn who is dead and leave them out.
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
	left := slices.DeleteFunc(slices.Collect(seq(n)), func(rank int) bool { return slices.Contains(dead, rank) })
	require.NoError(t, banyan.Simulate(n, banyan.Simulation{Configure: nodes, Faults: kill}, func(w *banyan.World) error {
		c := w.Comm()
		if err := without(c, dead); err != nil {
			return err
		}
		if uniform {
			if err := c.SetUniformity(banyan.UniformCollectives); err != nil {
				return err
			}
		}
		o := oracle{c: c, left: left}
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
					o.begun = (i+j+k)%2 == 1 // over each tree
					if err := o.all(size, root); err != nil {
						return fmt.Errorf("%v %s, begun: %v: %w", way.design, way.tree, o.begun, err)
					}
				}
			}
		}
		return nil
	}), "%d ranks without %v", n, dead)
}

func seq(n int) func(func(int) bool) {
	return func(yield func(int) bool) {
		for i := 0; i < n && yield(i); i++ {
		}
	}
}

// Each collective over each tree in each design gives what a sequential program computes, among those who are left.
func TestCollectivesAgainstOracle(t *testing.T) {
	counts, sets := []int{1, 2, 3, 5, 8, 13}[:ranktest.Scaled(6, 3)], 1
	if os.Getenv("BANYAN_LONG") != "" {
		counts, sets = append(slices.Collect(seq(18))[1:], 32, 64), 16
	}
	for _, n := range counts {
		t.Run(fmt.Sprint(n), func(t *testing.T) { // by itself: -run 'Oracle/^32$'
			r := rand.New(rand.NewPCG(7, uint64(n)))
			sizes := []int{0, 1, 37}
			if n <= 8 {
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
	over := []way{{banyan.Rebalance, "auto"}, {banyan.Rebalance, "chain"}, {banyan.LookupAvoiding, "binomial"}}
	counts := []int{3, 2, 4}[:ranktest.Scaled(3, 1)]
	if os.Getenv("BANYAN_LONG") != "" {
		counts, over = []int{2, 3, 4, 5, 6, 7, 8, 11}, ways()
	}
	for _, n := range counts {
		oracleCase(t, n, nil, []int{70_001}, n == 3, over)
	}
}

// Values with places, bits, and a length that does not fit any number of ranks.
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
			banyan.AllreduceLocated(c, low, banyan.MinLoc), banyan.AllreduceLocated(c, high, banyan.MaxLoc),
			banyan.Allreduce(c, bits[0], banyan.And), banyan.Allreduce(c, bits[1], banyan.Or), banyan.Allreduce(c, bits[2], banyan.Xor),
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
		return banyan.ReduceLocated(c, at, banyan.MinLoc, 4) // the root is gone: nothing to do
	}))
}

// A rank dies at some moment of a collective. All others get an error, each in its own operation, validate, and go on.
func TestCollectivesAndDeaths(t *testing.T) {
	seeds := ranktest.Seeds(12)
	if os.Getenv("BANYAN_LONG") != "" {
		seeds = 3000
	}
	const together = 250
	for first := uint64(0); first < seeds; first += together { // by themselves: -run 'Deaths/^750$'
		t.Run(fmt.Sprint(first), func(t *testing.T) {
			for seed := first; seed < min(first+together, seeds); seed++ {
				collectivesAndDeath(t, seed)
			}
		})
	}
}

// collectivesAndDeath is the death that has a number.
func collectivesAndDeath(t *testing.T, seed uint64) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 3))
	n := 2 + r.IntN(8)
	way := ways()[r.IntN(len(ways()))]
	victim, size := r.IntN(n), []int{0, 1, 40, 3000}[r.IntN(4)]
	at := fabric.Time(50_000 + r.IntN(400_000))
	left := slices.DeleteFunc(slices.Collect(seq(n)), func(rank int) bool { return rank == victim })
	s := banyan.Simulation{
		Seed:    seed,
		Faults:  func(s *sim.Sim) error { return s.Kill(proc.ID(victim), at) },
		Options: []banyan.Option{banyan.WithDesign(way.design), banyan.WithTree(way.tree), banyan.WithDetection(10*time.Millisecond, 50*time.Millisecond)},
	}
	require.NoError(t, banyan.Simulate(n, s, func(w *banyan.World) error {
		c := w.Comm()
		o := oracle{c: c, left: slices.Collect(seq(n))}
		var err error
		for i := 0; err == nil; i++ {
			o.round = uint64(i) << 8
			err = o.all(size, i%n)
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
		o = oracle{c: c, left: left}
		return errors.Join(o.all(size, left[0]), o.all(size, victim), o.all(size, left[len(left)-1]))
	}), "seed %d: %d ranks, %v %s, %d dies at %v, %d elements", seed, n, way.design, way.tree, victim, at, size)
}
