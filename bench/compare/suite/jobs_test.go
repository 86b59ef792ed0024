package suite

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/bench/compare"
)

// The bounds of the ledger are those of the sweeps.
func TestCollectivesHaveTheirBounds(t *testing.T) {
	c := &Comparison{jobs: map[string][]jobRun{collectives: {{name: ours}, {name: openmpi}, {name: mpich}}}}
	pair := c.sweeps(groupCollective)
	require.Len(t, pair, 1)
	for _, p := range pair[0].Parts[0].Points {
		require.Equal(t, []compare.Bound{
			{ID: "B7-10", Over: openmpi, Ratio: compare.OfTimes, Limit: 1.05},
			{ID: "B7-10", Over: mpich, Ratio: compare.OfTimes, Limit: 1.05},
		}, p.Bounds)
	}
	for i, s := range c.sweeps(groupCrowd) {
		require.Equal(t, []string{"B7-11", "B7-12"}[i], s.Parts[0].Points[0].Bounds[0].ID)
		require.Equal(t, 0.5, s.Parts[0].Points[2].Bounds[0].Limit)
		require.Len(t, s.Parts[0].Sources, 2, "MPICH's ranks do not yield")
	}
}

// A directory without an MPI is told by its name, and Banyan is measured alone.
func TestCompareRecoveryNamesTheDirectory(t *testing.T) {
	c := &Comparison{Options: Options{ULFM: "/nowhere"}, commands: map[string]string{}, jobs: map[string][]jobRun{},
		absent: map[string]string{}}
	require.NoError(t, c.addJobs(t.Context(), recoveries))
	require.Equal(t, "peers: openmpi-ulfm is not installed: there is no /nowhere/mpicc that can be run",
		c.absent[ulfm])
	require.Len(t, c.jobs[recoveries], 2)
	require.Equal(t, turns, c.jobs[recoveries][1].name)
}

// The bounds of the ledger are those of the sweeps. What the same takes without a library bounds
// nothing.
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
