package topologies

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/coll/topology"
)

// A map gives each process the rank that it gets in the topology with a new order, and none where that has no place;
// so a split with it makes the same communicator.
func TestMapsAreTheOrderOfTopologies(t *testing.T) {
	moved := false
	for n, perNode := range map[int]int{16: 4, 17: 4, 12: 3, 7: 7} {
		dims, periodic := []int{4, 4}, []bool{false, true}
		if n < 16 {
			dims = []int{n / 3, 3}
		}
		places := dims[0] * dims[1]
		edges := make([][]int, places)
		for i := range edges { // teams that were dealt out like cards
			for j := i % 3; j < places; j += 3 {
				edges[i] = append(edges[i], j)
			}
		}
		require.NoError(t, banyan.Simulate(n, banyan.Simulation{Configure: onNodes(perNode)}, func(w *banyan.World) error {
			c := w.Comm()
			grid, err := topology.NewCart(c, dims, periodic, true)
			require.NoError(t, err)
			at, err := topology.MapCart(c, dims, periodic)
			require.NoError(t, err)
			if err := sameOrder(c, at, grid.Comm()); err != nil {
				return err
			}
			graph, err := topology.NewGraph(c, edges, true)
			require.NoError(t, err)
			at, err = topology.MapGraph(c, edges)
			require.NoError(t, err)
			moved = moved || at >= 0 && at != c.Rank()
			return sameOrder(c, at, graph.Comm())
		}), "%d ranks", n)
	}
	require.True(t, moved, "the test shows nothing: every rank keeps its number")
}

// sameOrder compares a rank with that in a topology's communicator, which is nil for a rank without a place, and that
// communicator with one that the ranks make.
func sameOrder(c *banyan.Comm, at int, made *banyan.Comm) error {
	color := 0
	if at == banyan.Undefined {
		color = banyan.Undefined
	}
	again, err := c.Split(color, at)
	switch {
	case err != nil:
		return err
	case made == nil && again == nil:
		return nil
	case made == nil || again == nil || made.Rank() != at:
		return fmt.Errorf("rank %d of all: mapped to %d, has a place: %v", c.Rank(), at, made != nil)
	case again.Compare(made) != banyan.Congruent:
		return fmt.Errorf("rank %d: %v and %v", at, again.Group().Ranks(), made.Group().Ranks())
	}
	return nil
}

func TestWrongMaps(t *testing.T) {
	require.NoError(t, banyan.Simulate(3, banyan.Simulation{}, func(w *banyan.World) error {
		c := w.Comm()
		for name, err := range map[string]error{
			"too many places":   second(topology.MapCart(c, []int{2, 2}, make([]bool, 2))),
			"not known":         second(topology.MapCart(c, []int{3}, nil)),
			"no communicator":   second(topology.MapGraph(nil, [][]int{{}})),
			"no such vertex":    second(topology.MapGraph(c, [][]int{{1}})),
			"too many vertices": second(topology.MapGraph(c, make([][]int, 4))),
			"one direction":     second(topology.MapGraph(c, [][]int{{1}, {}})),
		} {
			require.ErrorIs(t, err, banyan.ErrArgument, name)
			require.ErrorContains(t, err, "Map", name)
		}
		return c.Barrier()
	}))
}
