package osu

import (
	"testing"

	"github.com/stretchr/testify/require"
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
