package intercomms

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// parted gives the side of a rank: the first ranks are on side 1; of no first ones the odd ranks.
func parted(rank, first int) int {
	if first == 0 {
		return rank % 2
	}
	if rank < first {
		return 1
	}
	return 0
}

// join makes an intercommunicator of the two sides of a communicator.
func join(c *banyan.Comm, first int) (bridge, error) {
	side := parted(c.Rank(), first)
	mine, err := c.Split(side, 0)
	if err != nil {
		return bridge{}, err
	}
	leader := 0 // of the other side
	for parted(leader, first) == side {
		leader++
	}
	inter, err := mine.CreateInter(0, c, leader, 9)
	return bridge{c: inter, side: side}, errors.Join(err, mine.Free())
}

// rooted are the kinds with a root.
var rooted = []ranktest.CollectiveKind{ranktest.Bcast, ranktest.Reduce, ranktest.Gather, ranktest.Scatter,
	ranktest.Gatherv, ranktest.Scatterv}

// every makes each call with each root, of several lengths and in each manner.
func every(b bridge, sizes ...int) error {
	number := 0
	for _, kind := range kinds {
		for _, size := range sizes {
			for side := range 2 {
				for root := range b.n(side) {
					if root > 1 && !slices.Contains(rooted, kind) {
						break
					}
					x := call{kind, number, side, root, size, number&2 == 0, number&4 == 0}
					if err := x.check(b); err != nil {
						return err
					}
					number++
				}
			}
			number += 3 // so that each kind has each manner
		}
	}
	return nil
}

// Each call has the result of a sequential program, for sides of any sizes, on one node and on several, with and
// without a copy of the buffers.
func TestCollectivesAgainstOracle(t *testing.T) {
	for i, ranks := range [][2]int{{2, 1}, {5, 1}, {5, 4}, {8, 0}, {9, 0}, {9, 3}, {17, 6}}[:ranktest.Scaled(7, 3)] {
		for _, level := range []banyan.Uniformity{banyan.UniformNothing, banyan.UniformCollectives} {
			for _, perNode := range ranktest.InTurn(i, 1, 3, 17) {
				s := banyan.Simulation{Configure: func(c *sim.Config) { c.Topology.ProcsPerNode = perNode }}
				require.NoError(t, banyan.Simulate(ranks[0], s, func(w *banyan.World) error {
					b, err := join(w.Comm(), ranks[1])
					if err != nil {
						return err
					}
					return errors.Join(b.c.SetUniformity(level), every(b, 0, 1, 300), b.c.Barrier(), b.c.Free())
				}), "%v ranks, %v, %d a node", ranks, level, perNode)
			}
		}
	}
}

// Long buffers go in segments between nodes, and straight over a chain.
func TestLongCollectives(t *testing.T) {
	for _, perNode := range []int{1, 2} {
		s := banyan.Simulation{Configure: func(c *sim.Config) { c.Topology.ProcsPerNode = perNode }}
		require.NoError(t, banyan.Simulate(5, s, func(w *banyan.World) error {
			b, err := join(w.Comm(), 2)
			if err == nil && perNode == 2 {
				err = b.c.SetTree(banyan.ChainTree)
			}
			return errors.Join(err, every(b, 70_000))
		}), perNode)
	}
}

// The same in the other modes: under a context, in the unaware engine, and where calls are checked.
func TestCollectivesInOtherModes(t *testing.T) {
	for name, options := range map[string][]banyan.Option{
		"context": nil, "unaware": {banyan.WithAware(false)}, "debug": {banyan.WithDebug(true)},
		"design": {banyan.WithDesign(banyan.LookupAvoiding), banyan.WithTree(banyan.BinaryTree)},
	} {
		require.NoError(t, banyan.Simulate(6, banyan.Simulation{Options: options}, func(w *banyan.World) error {
			b, err := join(w.Comm(), 0)
			if err != nil {
				return err
			}
			whole := b.c
			if name == "context" {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				b.c = b.c.WithContext(ctx)
			}
			return errors.Join(every(b, 1, 300), whole.Free())
		}), name)
	}
}

// Several calls are under way at a time, also on a communicator that was duplicated, and persistent ones start again.
func TestManyCallsUnderWay(t *testing.T) {
	for seed := range ranktest.Seeds(20) {
		require.NoError(t, banyan.Simulate(7, banyan.Simulation{Seed: seed}, func(w *banyan.World) error {
			b, err := join(w.Comm(), 3)
			if err != nil {
				return err
			}
			if b.c, err = b.c.Dup(); err != nil {
				return err
			}
			r := rand.New(rand.NewPCG(seed, 1))
			var calls []call
			var places []*place
			var started []*banyan.Persistent
			for number := range 12 {
				x := drawn(r, b, number)
				p := x.of(b)
				calls, places = append(calls, x), append(places, &p)
				started = append(started, b.c.Persistent(func(*banyan.Comm) banyan.Request { return x.start(b, &p) }))
			}
			for range 2 {
				banyan.StartAll(started, nil)
				own := rand.New(rand.NewPCG(seed, 10+uint64(w.Comm().Rank())))
				for _, i := range own.Perm(len(calls)) {
					if _, err := started[i].Wait(); err != nil {
						return err
					}
					if err := calls[i].compare(b, places[i]); err != nil {
						return err
					}
				}
			}
			return nil
		}), "seed %d", seed)
	}
}

// drawn is a random call.
func drawn(r *rand.Rand, b bridge, number int) call {
	side := r.IntN(2)
	return call{kinds[r.IntN(len(kinds))], number, side, r.IntN(b.n(side)), []int{0, 1, 40, 2500}[r.IntN(4)],
		r.IntN(2) == 0, r.IntN(2) == 0}
}

// everyCall is a real process of the same.
func everyCall(w *banyan.World) error {
	b, err := join(w.Comm(), w.Comm().Size()/3)
	if err != nil {
		return err
	}
	return every(b, 0, 1, 300, 20_000)
}

func TestCollectivesWithProcesses(t *testing.T) {
	for _, fabric := range []string{"shm", "tcp"} {
		for _, n := range []int{2, 4, 7}[:ranktest.Scaled(3, 2)] {
			t.Run(fmt.Sprint(fabric, n), func(t *testing.T) { ranktest.Succeed(t, n, "two sides", "BANYAN_FABRIC="+fabric) })
		}
	}
}

// The sums of both sides in place, as AllreduceValue calls it.
func TestValuesOfTheOtherSide(t *testing.T) {
	require.NoError(t, banyan.Simulate(5, banyan.Simulation{}, func(w *banyan.World) error {
		b, err := join(w.Comm(), 2)
		if err != nil {
			return err
		}
		sum, err := banyan.AllreduceValue(b.c, w.Comm().Rank(), banyan.Sum)
		require.Equal(t, []int{0 + 1, 2 + 3 + 4}[b.side], sum)
		root := 1
		if b.side == 1 {
			if root = banyan.ProcNull; b.c.Rank() == 1 {
				root = banyan.Root
			}
		}
		got, verr := banyan.BcastValue(b.c, w.Comm().Rank(), root)
		want := w.Comm().Rank()
		if b.side == 0 {
			want = 1
		}
		require.Equal(t, want, got)
		return errors.Join(err, verr)
	}))
}
