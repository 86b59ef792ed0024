package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/bench/compare"
	"github.com/banyan-hpc/banyan/bench/peers"
)

func TestCompareCollectives(t *testing.T) {
	out, r, ok := comparison(t, "--only coll --sample 1ms")
	if !ok {
		return
	}
	require.Contains(t, out, "collectives of 2 ranks")
	points := r.Curves[0].Points
	require.Len(t, points, 1+2*7)
	require.Equal(t, "barrier:0", points[0].Label)
	require.Equal(t, "allreduce:1048576", points[14].Label)
	for _, p := range points {
		for _, s := range p.Rounds[0].Samples {
			require.Positive(t, s.Seconds, p.Label)
		}
	}
	expectPeers(t, r, points[0].Rounds[0].Samples, map[string][2]string{openmpi: {"mpicc.openmpi", "openmpi collectives"}, mpich: {"mpicc.mpich", "mpich collectives"}})
}

// The bounds of the ledger are those of the sweeps.
func TestCollectivesHaveTheirBounds(t *testing.T) {
	c := &contest{collectives: []collectiveRun{{name: ours}, {name: openmpi}, {name: mpich}}}
	pair := c.sweeps(groupCollective, sizeRange{}, 0)
	require.Len(t, pair, 1)
	for _, p := range pair[0].Parts[0].Points {
		require.Equal(t, []compare.Bound{
			{ID: "B7-10", Over: openmpi, Ratio: compare.OfTimes, Limit: 1.05},
			{ID: "B7-10", Over: mpich, Ratio: compare.OfTimes, Limit: 1.05},
		}, p.Bounds)
	}
	for i, s := range c.sweeps(groupCrowd, sizeRange{}, 0) {
		require.Equal(t, []string{"B7-11", "B7-12"}[i], s.Parts[0].Points[0].Bounds[0].ID)
		require.Equal(t, 0.5, s.Parts[0].Points[2].Bounds[0].Limit)
		require.Len(t, s.Parts[0].Sources, 2, "MPICH's ranks do not yield")
	}
}

func TestParseCollective(t *testing.T) {
	op, err := peers.ParseCollective("bcast:1024")
	require.NoError(t, err)
	require.Equal(t, peers.Collective{Op: "bcast", Bytes: 1024}, op)
	for _, text := range []string{"", "bcast", "bcast:", "bcast:-1", "bcast:x"} {
		_, err := peers.ParseCollective(text)
		require.Error(t, err, text)
	}
}
