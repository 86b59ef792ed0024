package osu

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
)

// The limit is on all blocks of a rank together, or on the one buffer.
func TestMemoryLimit(t *testing.T) {
	for _, c := range []struct {
		name       string
		limit, max int
	}{
		{"alltoall", 8 << 20, 1 << 18}, {"iallgather", 8 << 20, 1 << 18}, {"bcast", 8 << 20, 1 << 20},
		{"allreduce", 1, 1 << 20}, {"gather", 1, 1 << 15}, {"gather", 0, 1 << 20}, {"latency", 1, 4 << 20},
	} {
		b := Find(c.name)
		o := b.Defaults
		o.MemoryLimit = c.limit
		got, lowered := b.Bounded(32, o)
		require.Equal(t, c.max, got.Max, c.name)
		require.Equal(t, c.max < o.Max, lowered)
	}

	b := Find("ialltoall")
	o := b.Defaults
	o.Min, o.MemoryLimit = 1<<20, 8<<20
	require.ErrorContains(t, b.Check(32, o), "a memory limit of 8388608 bytes for 32 ranks: not even messages of "+
		"1048576 bytes fit: raise it (-M)")
	require.NoError(t, b.Check(8, o))
}

// Sizes are counted in elements; sums are right in each type, and a wrong one is noticed in each.
func TestTypes(t *testing.T) {
	for kind, sizes := range map[Datatype][]int{Char: {1, 2, 4, 8}, Int: {4, 8}, Float: {4, 8}} {
		for _, name := range []string{"latency", "bw_fan_in", "bcast", "ialltoall", "allreduce", "reduce", "scan",
			"reduce_scatter", "reduce_scatter_block", "iallreduce", "ireduce", "ireduce_scatter", "ireduce_scatter_block"} {
			b := Find(name)
			o := small(b)
			o.Type, o.Min, o.Max, o.Validate = kind, 1, 8, true
			require.Equal(t, len(sizes), b.Rows(o))
			ranks := 2
			if b.Collective {
				ranks = 5
			}
			for i, p := range points(t, name, ranks, o) {
				require.Equal(t, sizes[i], p.Size)
				require.Zero(t, p.Errors)
			}
		}
		inSim(t, 3, func(w *banyan.World) error {
			o := Options{Max: 8, Type: kind}
			g := newGroup(w, &o, allreduceOp)
			g.op.call = func(g *group, size int) error {
				if g.c.Rank() == 1 {
					clear(g.buf)
				}
				return allreduceOp.call(g, size)
			}
			wrong, err := g.validate(8, 1, 0)
			require.NoError(t, err)
			require.Positive(t, wrong, string(kind))
			return nil
		})
	}
}
