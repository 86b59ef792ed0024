package topologies

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/coll/topology"
)

func TestCart(t *testing.T) {
	require.NoError(t, banyan.Simulate(8, banyan.Simulation{}, func(w *banyan.World) error {
		g, err := topology.NewCart(w.Comm(), []int{2, 3}, []bool{false, true}, false)
		require.NoError(t, err)
		if w.Comm().Rank() >= 6 {
			require.Nil(t, g)
			require.Nil(t, g.Comm())
			require.ErrorIs(t, topology.Alltoall(g, []int{}, []int{}), banyan.ErrArgument)
			_, err := g.Coords(0)
			require.ErrorIs(t, err, banyan.ErrArgument)
			_, err = g.Sub(nil)
			require.ErrorIs(t, err, banyan.ErrArgument)
			return nil
		}
		me := g.Comm().Rank()
		require.Equal(t, w.Comm().Rank(), me)
		require.Equal(t, []int{2, 3}, g.Dims())
		require.Equal(t, []bool{false, true}, g.Periodic())
		at, err := g.Coords(me)
		require.NoError(t, err)
		require.Equal(t, []int{me / 3, me % 3}, at)
		rank, err := g.Rank(at[0], at[1]+300)
		require.NoError(t, err)
		require.Equal(t, me, rank)
		rank, err = g.Rank(2, 0)
		require.NoError(t, err)
		require.Equal(t, banyan.ProcNull, rank)
		source, dest, err := g.Shift(0, 1)
		require.NoError(t, err)
		want := []int{banyan.ProcNull, me + 3}
		if me >= 3 {
			want = []int{me - 3, banyan.ProcNull}
		}
		require.Equal(t, want, []int{source, dest})
		for _, err := range []error{
			third(g.Shift(2, 1)), third(g.Shift(-1, 1)), second(g.Rank(1)), second(g.Coords(6)), second(g.Coords(-1)),
			second(g.Sub([]bool{true})),
		} {
			require.ErrorIs(t, err, banyan.ErrArgument)
		}
		row, err := g.Sub([]bool{false, true})
		require.NoError(t, err)
		require.Equal(t, []int{3}, row.Dims())
		require.Equal(t, []bool{true}, row.Periodic())
		require.Equal(t, me%3, row.Comm().Rank())
		require.Equal(t, []int{(me + 2) % 3, (me + 1) % 3}, row.Neighbors())
		point, err := row.Sub([]bool{false})
		require.NoError(t, err)
		require.Equal(t, 1, point.Comm().Size())
		require.Empty(t, point.Neighbors())
		return topology.Alltoall(point, []int{}, []int{})
	}))
}

func second(_ any, err error) error   { return err }
func third(_, _ any, err error) error { return err }

// Wrong arguments are errors at all ranks that give them, and at all ranks where these exchange edges.
func TestWrongTopologies(t *testing.T) {
	require.NoError(t, banyan.Simulate(3, banyan.Simulation{}, func(w *banyan.World) error {
		c := w.Comm()
		odd := c.Rank() == 1
		var e topology.Edges
		var edges []topology.Edge
		if odd {
			e.Dests, edges = []int{3}, []topology.Edge{{From: 0, To: 5}}
		}
		lonely, negative := topology.Edges{}, topology.Edges{Dests: []int{1}, DestWeights: []int{-1}}
		if odd {
			lonely.Dests = []int{2}
		}
		for name, err := range map[string]error{
			"too many places":    second(topology.NewCart(c, []int{2, 2}, make([]bool, 2), false)),
			"no places":          second(topology.NewCart(c, []int{0}, make([]bool, 1), true)),
			"overflow":           second(topology.NewCart(c, []int{1, 1 << 62, 4}, make([]bool, 3), false)),
			"not known":          second(topology.NewCart(c, []int{3}, nil, false)),
			"no communicator":    second(topology.NewCart(nil, nil, nil, false)),
			"none, distributed":  second(topology.NewDistGraph(nil, nil, false)),
			"no such vertex":     second(topology.NewGraph(c, [][]int{{1}}, false)),
			"too many vertices":  second(topology.NewGraph(c, make([][]int, 4), false)),
			"one direction":      second(topology.NewGraph(c, [][]int{{1}, {}}, false)),
			"more one way":       second(topology.NewGraph(c, [][]int{{1, 1}, {0}}, false)),
			"weights":            second(topology.NewAdjacent(c, topology.Edges{DestWeights: []int{1}}, false)),
			"negative":           second(topology.NewAdjacent(c, negative, false)),
			"of others, ordered": second(topology.NewAdjacent(c, e, true)),
			"of others":          second(topology.NewDistGraph(c, edges, false)),
			"one end alone":      second(topology.NewAdjacent(c, lonely, true)),
		} {
			require.ErrorIs(t, err, banyan.ErrArgument, name)
		}
		return c.Barrier()
	}))
}

// A rank with wrong arguments takes part: the next grids are the same at all ranks.
func TestSubWithWrongArguments(t *testing.T) {
	require.NoError(t, banyan.Simulate(4, banyan.Simulation{}, func(w *banyan.World) error {
		g, err := topology.NewCart(w.Comm(), []int{2, 2}, make([]bool, 2), false)
		require.NoError(t, err)
		keep := []bool{false, true}
		if g.Comm().Rank() == 1 {
			keep = nil
		}
		row, err := g.Sub(keep)
		if g.Comm().Rank() < 2 {
			require.ErrorIs(t, err, banyan.ErrArgument)
			require.False(t, banyan.IsFailure(err))
		} else {
			require.NoError(t, err)
			require.NoError(t, checkAll(row, []int{3}))
		}
		row, err = g.Sub([]bool{false, true})
		require.NoError(t, err)
		return checkAll(row, []int{3})
	}))
}

// A rank with wrong edges makes its communicator, too: the next graphs are the same at all ranks.
func TestAdjacentWithWrongArguments(t *testing.T) {
	require.NoError(t, banyan.Simulate(2, banyan.Simulation{}, func(w *banyan.World) error {
		if w.Comm().Rank() == 1 {
			wrong := topology.Edges{Dests: []int{2}}
			require.ErrorIs(t, second(topology.NewAdjacent(w.Comm(), wrong, false)), banyan.ErrArgument)
		} else {
			require.NoError(t, second(topology.NewAdjacent(w.Comm(), topology.Edges{}, false)))
		}
		other := []int{1 - w.Comm().Rank()}
		g, err := topology.NewAdjacent(w.Comm(), topology.Edges{Sources: other, Dests: other}, false)
		require.NoError(t, err)
		return checkAll(g, []int{3})
	}))
}

// The edges of a graph come in the order of the ranks that give them.
func TestDistGraph(t *testing.T) {
	require.NoError(t, banyan.Simulate(3, banyan.Simulation{}, func(w *banyan.World) error {
		edges := [][]topology.Edge{
			{{From: 1, To: 2, Weight: 5}, {From: 0, To: 0, Weight: 6}},
			{{From: 2, To: 1, Weight: 7}},
			{{From: 1, To: 0, Weight: 8}, {From: 1, To: 2, Weight: 9}},
		}
		g, err := topology.NewDistGraph(w.Comm(), edges[w.Comm().Rank()], false)
		require.NoError(t, err)
		require.Equal(t, []topology.Edges{
			{Sources: []int{0, 1}, Dests: []int{0}, SourceWeights: []int{6, 8}, DestWeights: []int{6}},
			{Sources: []int{2}, Dests: []int{2, 0, 2}, SourceWeights: []int{7}, DestWeights: []int{5, 8, 9}},
			{Sources: []int{1, 1}, Dests: []int{1}, SourceWeights: []int{5, 9}, DestWeights: []int{7}},
		}[g.Comm().Rank()], g.Edges())
		_, err = g.Neighbors(0)
		require.ErrorIs(t, err, banyan.ErrArgument)
		return nil
	}))
}

// On several nodes a grid is laid out in blocks, and a graph by its edges; each process has the edges of its
// rank. On one node the order stays.
func TestReorder(t *testing.T) {
	for perNode, want := range map[int]int{4: 16, 16: 0} {
		var mu sync.Mutex
		crossing, moved := 0, false
		require.NoError(t, banyan.Simulate(16, banyan.Simulation{Configure: onNodes(perNode)}, func(w *banyan.World) error {
			g, err := topology.NewCart(w.Comm(), []int{4, 4}, []bool{false, false}, true)
			require.NoError(t, err)
			ranks := g.Comm().Group().Ranks()
			me := g.Comm().Rank()
			mu.Lock()
			for _, to := range g.Neighbors() {
				if to != banyan.ProcNull && ranks[to]/perNode != ranks[me]/perNode {
					crossing++
				}
			}
			moved = moved || me != w.Comm().Rank()
			mu.Unlock()
			return checkAll(g, []int{3})
		}))
		require.Equal(t, want, crossing, "%d on a node", perNode)
		require.Equal(t, perNode == 4, moved)
	}
}

// A rank that announces more edges than can be, as one that calls another operation does, is refused.
func TestAbsurdCounts(t *testing.T) {
	for _, count := range []int{3 << 60, 3 << 40, 3 << 23} {
		require.NoError(t, banyan.Simulate(2, banyan.Simulation{}, func(w *banyan.World) error {
			c, counts := w.Comm(), make([]int, 2)
			if c.Rank() == 1 {
				return errors.Join(banyan.Alltoall(c, []int{count, 0}, counts), banyan.Allgather(c, []int{count}, counts))
			}
			require.ErrorIs(t, second(topology.NewDistGraph(c, nil, false)), banyan.ErrArgument)
			require.ErrorIs(t, second(topology.NewAdjacent(c, topology.Edges{}, true)), banyan.ErrArgument)
			return nil
		}), count)
	}
}

// Teams that were dealt out to the nodes like cards come together, whichever way the edges are given.
func TestReorderGraphs(t *testing.T) {
	const n, teams = 12, 3
	edges := make([][]int, n)
	for i := range edges {
		for j := i % teams; j < n; j += teams {
			if i != j {
				edges[i] = append(edges[i], j)
			}
		}
	}
	for name, made := range map[string]func(c *banyan.Comm) (*topology.Graph, error){
		"graph": func(c *banyan.Comm) (*topology.Graph, error) { return topology.NewGraph(c, edges, true) },
		"adjacent": func(c *banyan.Comm) (*topology.Graph, error) {
			own := edges[c.Rank()]
			return topology.NewAdjacent(c, topology.Edges{Sources: own, Dests: own}, true)
		},
		"dist": func(c *banyan.Comm) (*topology.Graph, error) {
			var own []topology.Edge
			for _, to := range edges[(c.Rank()+5)%n] {
				own = append(own, topology.Edge{From: (c.Rank() + 5) % n, To: to, Weight: 1})
			}
			return topology.NewDistGraph(c, own, true)
		},
	} {
		require.NoError(t, banyan.Simulate(n, banyan.Simulation{Configure: onNodes(n / teams)}, func(w *banyan.World) error {
			g, err := made(w.Comm())
			require.NoError(t, err)
			me, ranks := g.Comm().Rank(), g.Comm().Group().Ranks()
			require.Equal(t, edges[me], slices.Sorted(slices.Values(g.Neighborhood().Dests)), "the edges of its rank")
			for _, to := range g.Neighborhood().Dests {
				require.Equal(t, ranks[me]/(n/teams), ranks[to]/(n/teams), name)
			}
			return checkAll(g, []int{3})
		}), name)
	}
}
