package suite

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/bench/many"
)

// A sweep for each number of ranks, of all that are there, and a name for each value of a sample.
func TestManySweeps(t *testing.T) {
	c := &Comparison{Options: Options{ManyRanks: []int{4, 8}, ManySizes: []int{8, 4096}},
		jobs: map[string][]jobRun{messages: {{name: ours}, {name: openmpi}, {name: mpich}}}}
	sweeps := c.sweeps(groupMany)
	require.Len(t, sweeps, 2)
	part := sweeps[1].Parts[0]
	require.Len(t, part.Sources, 3)
	require.Len(t, part.Points, 7)
	require.Equal(t, "first:8", part.Points[0].Label)
	require.Equal(t, openmpi, part.Points[6].Bounds[0].Over)
	s := &many.Sample{Times: []many.Times{{Size: 8, First: 1, Second: 2, Steady: 3}}, Shared: 3 << 20}
	require.Equal(t, []float64{1, 2, 3, 3e-6}, manyValues(s))
}
