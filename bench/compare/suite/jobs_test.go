package suite

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/bench/compare"
	"github.com/banyan-hpc/banyan/bench/osu"
)

// The bounds of the ledger are those of the sweeps.
func TestCollectivesHaveTheirBounds(t *testing.T) {
	c := &Comparison{jobs: map[string][]jobRun{collectives: {{name: ours}, {name: openmpi}, {name: mpich}}}}
	pair := c.sweeps(groupCollective)
	require.Len(t, pair, 3)
	for i, s := range pair {
		points := s.Parts[0].Points
		require.Len(t, points, []int{1, 14, 14}[i], "each size with buffers written once, and between calls")
		for _, p := range points {
			require.Equal(t, []compare.Bound{
				{ID: "B7-10", Over: openmpi, Ratio: compare.OfTimes, Limit: 1.05},
				{ID: "B7-10", Over: mpich, Ratio: compare.OfTimes, Limit: 1.05},
			}, p.Bounds)
		}
	}
	require.Equal(t, "bcast:8:rewritten", pair[1].Parts[0].Points[1].Label)
	for i, s := range c.sweeps(groupCrowd) {
		require.Equal(t, []string{"B7-11", "B7-12"}[i], s.Parts[0].Points[0].Bounds[0].ID)
		require.Equal(t, 0.5, s.Parts[0].Points[2].Bounds[0].Limit)
		require.Len(t, s.Parts[0].Sources, 2, "MPICH's ranks do not yield")
	}
}

// Collectives that are named have the bounds of B22-3, unless they are those of B7-10; with OSU's programs at its sizes.
func TestNamedCollectives(t *testing.T) {
	for _, name := range Collectives {
		require.NotNil(t, osu.Find(name), name)
	}
	c := &Comparison{jobs: map[string][]jobRun{collectives: {{name: ours}, {name: openmpi}, {name: mpich}}},
		commands: map[string]string{}, absent: map[string]string{}}
	c.Collectives, c.CrowdRanks = []string{"scan"}, []int{8}
	scan := c.sweeps(groupCollective)[0].Parts[0]
	require.Equal(t, compare.Bound{ID: "B22-3", Over: mpich, Ratio: compare.OfTimes, Limit: 1}, scan.Points[0].Bounds[1])
	crowd := c.sweeps(groupCrowd)[0].Parts[0]
	require.Len(t, crowd.Sources, 2)
	for i, limit := range map[int]float64{0: 0.5, 7: 0.5, 8: 0.8, 13: 0.8} {
		require.Equal(t, []compare.Bound{{ID: "B22-3", Over: openmpi, Ratio: compare.OfTimes, Limit: limit}},
			crowd.Points[i].Bounds, crowd.Points[i].Label)
	}
	c.OSU = "/nowhere"
	require.Len(t, c.sweeps(groupCollective)[0].Parts[0].Points, 18, "8 bytes to 1 MiB")
	require.NoError(t, c.addJobs(t.Context(), collectives))
	require.Contains(t, c.absent["openmpi collectives"], "OSU's programs for openmpi in /nowhere/openmpi")
	require.Contains(t, c.commands["collectives banyan"], "osu bcast -i 400 -x 40 -m 8:1048576")
	require.ErrorContains(t, (&Options{Pairs: 9, MaxTime: 1, Sample: 1, Ranks: 1, Collectives: []string{"agree"}}).Check(),
		"no collective \"agree\": choose of barrier, bcast,")
}

// The error names a directory without an MPI, and Banyan is measured alone.
func TestCompareRecoveryNamesTheDirectory(t *testing.T) {
	c := &Comparison{Options: Options{ULFM: "/nowhere"}, commands: map[string]string{}, jobs: map[string][]jobRun{},
		absent: map[string]string{}}
	require.NoError(t, c.addJobs(t.Context(), recoveries))
	require.Equal(t, "peers: openmpi-ulfm is not installed: there is no /nowhere/mpicc that can be run",
		c.absent[ulfm])
	require.Len(t, c.jobs[recoveries], 2)
	require.Equal(t, turns, c.jobs[recoveries][1].name)
}

// The bounds of the ledger are those of the sweeps. The times without a library bound nothing.
func TestRecoveriesHaveTheirBounds(t *testing.T) {
	c := &Comparison{jobs: map[string][]jobRun{recoveries: {{name: ours}, {name: ulfm}, {name: turns}}}}
	for _, s := range c.sweeps(groupULFM) {
		points := s.Parts[0].Points
		require.Len(t, s.Parts[0].Sources, 3)
		for i, id := range []string{"", "B6-2", "", "B6-4"} {
			require.Equal(t, id, points[i].Bounds[0].ID)
			require.Equal(t, id != "", points[i].Bounds[0].Limit == 0.5)
			require.Equal(t, ulfm, points[i].Bounds[0].Over)
			require.Equal(t, compare.Bound{Over: turns, Ratio: points[i].Bounds[1].Ratio}, points[i].Bounds[1])
		}
	}
	alone := &Comparison{jobs: map[string][]jobRun{recoveries: {{name: ours}}}}
	require.Empty(t, alone.sweeps(groupULFM)[0].Parts[0].Points[1].Bounds)
}
