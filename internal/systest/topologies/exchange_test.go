package topologies

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/coll/topology"
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// random makes a topology of a kind that the seed draws, the same at all ranks; nil at a rank without a
// place.
func random(c *banyan.Comm, seed uint64) (topology.Topology, error) {
	r := rand.New(rand.NewPCG(seed, 1))
	reorder := r.IntN(2) == 0
	switch r.IntN(4) {
	case 0:
		return randomCart(c, r, reorder)
	case 1:
		places := 1 + r.IntN(c.Size())
		edges := make([][]int, places)
		for range r.IntN(3 * places) {
			a, b := r.IntN(places), r.IntN(places)
			if edges[a] = append(edges[a], b); a != b {
				edges[b] = append(edges[b], a)
			}
		}
		return present(topology.NewGraph(c, edges, reorder))
	case 2:
		return present(topology.NewDistGraph(c, drawn(r, c)[c.Rank()], reorder))
	}
	var e topology.Edges
	for _, x := range slices.Concat(drawn(r, c)...) {
		if x.From == c.Rank() {
			e.Dests, e.DestWeights = append(e.Dests, x.To), append(e.DestWeights, x.Weight)
		}
		if x.To == c.Rank() {
			e.Sources = append(e.Sources, x.From, banyan.ProcNull)
		}
	}
	return present(topology.NewAdjacent(c, e, reorder))
}

// drawn are random edges, by the ranks that give them.
func drawn(r *rand.Rand, c *banyan.Comm) [][]topology.Edge {
	edges := make([][]topology.Edge, c.Size())
	for range r.IntN(4 * c.Size()) {
		giver := r.IntN(c.Size())
		edges[giver] = append(edges[giver], topology.Edge{From: r.IntN(c.Size()), To: r.IntN(c.Size()), Weight: r.IntN(3)})
	}
	return edges
}

func randomCart(c *banyan.Comm, r *rand.Rand, reorder bool) (topology.Topology, error) {
	places := 1 + r.IntN(c.Size())
	dims := make([]int, 1+r.IntN(3))
	if err := topology.Dims(places, dims); err != nil {
		return nil, err
	}
	r.Shuffle(len(dims), func(i, j int) { dims[i], dims[j] = dims[j], dims[i] })
	periodic := make([]bool, len(dims))
	for i := range periodic {
		periodic[i] = r.IntN(2) == 0
	}
	return present(topology.NewCart(c, dims, periodic, reorder))
}

// present is a topology of this rank, or nil.
func present[T interface {
	comparable
	topology.Topology
}](t T, err error) (topology.Topology, error) {
	var none T
	if err != nil || t == none {
		return nil, err
	}
	return t, nil
}

// several checks random topologies.
func several(c *banyan.Comm, seed uint64, times int) error {
	for i := range uint64(times) {
		t, err := random(c, 100*seed+i)
		if err == nil && t != nil {
			err = errors.Join(checkAll(t, []int{0, 1, 700}), t.Comm().Free())
		}
		if err != nil {
			return fmt.Errorf("topology %d: %w", i, err)
		}
	}
	return nil
}

// onNodes puts so many ranks on each node.
func onNodes(ranks int) func(*sim.Config) {
	return func(c *sim.Config) { c.Topology.ProcsPerNode = ranks }
}

func TestExchangesAgainstOracle(t *testing.T) {
	for seed := range ranktest.Seeds(40) {
		n := 1 + int(seed%9)
		s := banyan.Simulation{Seed: seed, Configure: onNodes(1 + int(seed%4))}
		require.NoError(t, banyan.Simulate(n, s, func(w *banyan.World) error {
			if seed%5 == 4 {
				if err := w.Comm().SetUniformity(banyan.UniformCollectives); err != nil {
					return err
				}
			}
			return several(w.Comm(), seed, 4)
		}), "seed %d, %d ranks", seed, n)
	}
}

// The same in the other modes: under a context, in the unaware engine, and where calls are checked.
func TestExchangesInOtherModes(t *testing.T) {
	for name, options := range map[string][]banyan.Option{
		"context": nil, "unaware": {banyan.WithAware(false)}, "debug": {banyan.WithDebug(true)},
	} {
		require.NoError(t, banyan.Simulate(4, banyan.Simulation{Options: options}, func(w *banyan.World) error {
			g, err := topology.NewCart(w.Comm(), []int{2, 2}, []bool{true, false}, true)
			if err != nil {
				return err
			}
			if name == "context" {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				g = g.WithContext(ctx)
			}
			return checkAll(g, []int{0, 1, 700, 20_000})
		}), name)
	}
}

// neighboursRank is a real process of the same.
func neighboursRank(w *banyan.World) error {
	seed, err := ranktest.JobSeed()
	if err != nil {
		return err
	}
	return several(w.Comm(), seed, 10)
}

func TestExchangesWithProcesses(t *testing.T) {
	for i, fabric := range []string{"shm", "tcp"} {
		for _, n := range []int{1, 4, 7}[:ranktest.Scaled(3, 2)] {
			t.Run(fmt.Sprint(fabric, n), func(t *testing.T) {
				ranktest.Succeed(t, n, "neighbours", "BANYAN_FABRIC="+fabric, fmt.Sprint(ranktest.SeedEnv, "=", n+10*i))
			})
		}
	}
}

// In a periodic dimension of one or two places both directions lead to the same rank. The block for the lower
// neighbour comes to the place for the upper one.
func TestDirectionsOfShortRings(t *testing.T) {
	for n := 1; n <= 3; n++ {
		require.NoError(t, banyan.Simulate(n, banyan.Simulation{}, func(w *banyan.World) error {
			g, err := topology.NewCart(w.Comm(), []int{n, 1}, []bool{true, true}, false)
			require.NoError(t, err)
			me := g.Comm().Rank()
			lower, upper := (me+n-1)%n, (me+1)%n
			require.Equal(t, []int{lower, upper, me, me}, g.Neighbors())
			got := make([]int, 4)
			for _, call := range []func() error{
				func() error { return topology.Alltoall(g, []int{4 * me, 4*me + 1, 4*me + 2, 4*me + 3}, got) },
				func() error {
					_, err := topology.Ialltoall(g, []int{4 * me, 4*me + 1, 4*me + 2, 4*me + 3}, got).Wait()
					return err
				},
			} {
				clear(got)
				require.NoError(t, call())
				require.Equal(t, []int{4*lower + 1, 4 * upper, 4*me + 3, 4*me + 2}, got)
			}
			return nil
		}))
	}
}

// Slices that share memory are as two, also if blocks come before all are sent.
func TestExchangeInPlace(t *testing.T) {
	const n = 200_000
	require.NoError(t, banyan.Simulate(4, banyan.Simulation{}, func(w *banyan.World) error {
		g, err := topology.NewCart(w.Comm(), []int{4}, []bool{true}, false)
		require.NoError(t, err)
		me := w.Comm().Rank()
		blocks := func(a, b int) []int { return append(slices.Repeat([]int{a}, n), slices.Repeat([]int{b}, n)...) }
		buf := blocks(10*me, 10*me+1)
		require.NoError(t, topology.Alltoall(g, buf, buf))
		lower, upper := (me+3)%4, (me+1)%4
		require.True(t, slices.Equal(blocks(10*lower+1, 10*upper), buf))
		buf = blocks(-1, 7+me)
		require.NoError(t, topology.Allgather(g, buf[n:], buf))
		require.True(t, slices.Equal(blocks(7+lower, 7+upper), buf))
		return nil
	}))
}

// Lengths that do not fit are an error at the rank that has them, before it sends data, and no rank waits.
func TestMisfits(t *testing.T) {
	for name, call := range map[string]func(g *topology.Cart, odd bool) error{
		"alltoall, no multiple": func(g *topology.Cart, odd bool) error {
			return topology.Alltoall(g, make([]int, pick(odd, 5, 4)), make([]int, 4))
		},
		"alltoall, other blocks": func(g *topology.Cart, odd bool) error {
			return topology.Alltoall(g, make([]int, 4), make([]int, pick(odd, 8, 4)))
		},
		"allgather": func(g *topology.Cart, odd bool) error {
			return topology.Allgather(g, make([]int, 2), make([]int, pick(odd, 2, 4)))
		},
		"alltoallv": func(g *topology.Cart, odd bool) error {
			return topology.Alltoallv(g, make([][]int, pick(odd, 1, 2)), make([][]int, 2))
		},
		"allgatherv": func(g *topology.Cart, odd bool) error {
			return topology.Allgatherv(g, []int{1}, [][]int{{0}, {0}, {0}}[:pick(odd, 3, 2)])
		},
	} {
		require.NoError(t, banyan.Simulate(6, banyan.Simulation{}, func(w *banyan.World) error {
			g, err := topology.NewCart(w.Comm(), []int{6}, []bool{true}, false)
			require.NoError(t, err)
			err = call(g, w.Comm().Rank() == 1)
			if w.Comm().Rank() == 1 {
				require.ErrorIs(t, err, banyan.ErrArgument, name)
			}
			if rank := w.Comm().Rank(); rank > 2 {
				require.NoError(t, err, "%s: rank %d is no neighbour", name, rank)
			}
			return w.Comm().Barrier()
		}), name)
	}
}

func pick(odd bool, a, b int) int {
	if odd {
		return a
	}
	return b
}

// Blocks whose ranks do not agree on a length are an error at the receiver.
func TestLengthsThatDiffer(t *testing.T) {
	require.NoError(t, banyan.Simulate(3, banyan.Simulation{}, func(w *banyan.World) error {
		g, err := topology.NewCart(w.Comm(), []int{3}, []bool{false}, false)
		require.NoError(t, err)
		send := [][]int{{1, 2}, {1, 2}}
		if w.Comm().Rank() == 0 {
			send[1] = []int{1, 2, 3}
		}
		err = topology.Alltoallv(g, send, [][]int{{0, 0}, {0, 0}})
		if w.Comm().Rank() == 1 {
			require.ErrorIs(t, err, banyan.ErrArgument)
			require.ErrorContains(t, err, "rank 0 sent 24 bytes")
		} else {
			require.NoError(t, err)
		}
		return w.Comm().Barrier()
	}))
}

// neighboursAllocs checks that an exchange allocates nothing after a warm-up.
func neighboursAllocs(w *banyan.World) error {
	g, err := topology.NewCart(w.Comm(), []int{w.Comm().Size()}, []bool{false}, false)
	if err != nil {
		return err
	}
	mine, all, other := make([]byte, 100), make([]byte, 200), make([]byte, 200)
	from, to := [][]byte{all[:100], all[100:]}, [][]byte{other[:100], other[100:]}
	var failed error
	blocking := func(call func() error) func() {
		return func() { failed = errors.Join(failed, call(), w.Comm().Barrier()) }
	}
	starting := func(call func() banyan.Request) func() {
		return blocking(func() error { _, err := call().Wait(); return err })
	}
	for kind, call := range []func(){
		blocking(func() error { return topology.Alltoall(g, all, other) }),
		blocking(func() error { return topology.Alltoall(g, all, all) }),
		blocking(func() error { return topology.Alltoallv(g, from, to) }),
		blocking(func() error { return topology.Allgather(g, mine, all) }),
		blocking(func() error { return topology.Allgatherv(g, mine, to) }),
		starting(func() banyan.Request { return topology.Ialltoall(g, all, other) }),
		starting(func() banyan.Request { return topology.Ialltoallv(g, from, to) }),
		starting(func() banyan.Request { return topology.Iallgather(g, mine, all) }),
		starting(func() banyan.Request { return topology.Iallgatherv(g, mine, to) }),
	} {
		n := testing.AllocsPerRun(300, call)
		if failed != nil || n >= 1 {
			return fmt.Errorf("kind %d allocates %v times: %w", kind, n, failed)
		}
	}
	again := topology.AlltoallInit(g, all, other)
	if n := testing.AllocsPerRun(300, blocking(func() error {
		again.Start()
		_, err := again.Wait()
		return err
	})); failed != nil || n >= 1 {
		return fmt.Errorf("a persistent exchange allocates %v times: %w", n, failed)
	}
	return nil
}

func TestExchangesAllocateNothing(t *testing.T) {
	ranktest.Succeed(t, 3, "neighbours allocs", "BANYAN_DETECT=off", "BANYAN_DEBUG=off")
}

// Under debug calls that differ are named as the program has made them.
func TestDebugNamesCalls(t *testing.T) {
	s := banyan.Simulation{Options: []banyan.Option{banyan.WithDebug(true)}}
	require.NoError(t, banyan.Simulate(2, s, func(w *banyan.World) error {
		g, err := topology.NewCart(w.Comm(), []int{2}, []bool{true}, false)
		require.NoError(t, err)
		if g.Comm().Rank() == 0 {
			err = topology.Alltoall(g, []int{1, 2}, []int{3, 4})
		} else {
			err = topology.Allgather(g, []int{1}, []int{3, 4})
		}
		require.ErrorIs(t, err, banyan.ErrArgument)
		require.ErrorContains(t, err, "topology.Alltoall")
		require.ErrorContains(t, err, "exchange_test.go")
		return g.Comm().Free()
	}))
}
