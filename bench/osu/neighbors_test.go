package osu

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
)

// In any grid each block comes from the neighbour in its direction, also where several are one rank.
func TestNeighbors(t *testing.T) {
	for _, grid := range []Grid{{1, 1}, {1, 3}, {2, 1}, {2, 2}, {3, 1}} {
		for _, ranks := range []int{2, 3, 8} {
			for _, name := range []string{"neighbor_allgather", "neighbor_alltoall", "neighbor_alltoallv", "ineighbor_alltoall"} {
				o := small(Find(name)).among(grid)
				o.Min, o.Max, o.Validate = 16, 16, true
				got := points(t, name, ranks, o)
				require.Len(t, got, 1)
				require.Zero(t, got[0].Errors, "%s of %d ranks, %+v", name, ranks, grid)
			}
		}
	}
}

// A block that comes from the other direction is noticed: of two ranks both directions lead to the other one.
func TestNeighborsNoticeWrongBytes(t *testing.T) {
	inSim(t, 2, func(w *banyan.World) error {
		o := Options{Max: 64, Grid: Grid{1, 1}}
		g := newGroup(w, &o, neighborAlltoallOp)
		if err := g.open(&o); err != nil {
			return err
		}
		g.op.call = func(g *group, size int) error {
			back := banyan.Neighborhood{Sources: g.near.Sources, Dests: g.near.Dests}
			return banyan.NeighborAlltoall(g.c, back, g.places(g.buf, size), g.places(g.out, size))
		}
		wrong, err := g.validate(64, 1, 0)
		require.NoError(t, err)
		require.NotZero(t, wrong)
		return g.free(&o)
	})
}

func TestParseGrid(t *testing.T) {
	for text, want := range map[string]Grid{"cart:1:1": {1, 1}, "cart:3:2": {3, 2}} {
		got, err := ParseGrid(text)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for text, cure := range map[string]string{
		"graph:edges.txt": "give cart:DIMENSIONS:RADIUS", "cart": "such as cart:2:1", "cart:1": "such as cart:2:1",
		"cart:a:1": "two numbers", "cart:0:1": "at least 1", "cart:1:0": "at least 1", "cart:100:100": "at most",
	} {
		_, err := ParseGrid(text)
		require.ErrorContains(t, err, cure, text)
	}
}
