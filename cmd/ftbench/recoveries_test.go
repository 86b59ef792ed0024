package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/bench/compare"
	"github.com/banyan-hpc/banyan/bench/peers"
)

// Where Open MPI has no fault tolerance, the comparison says so, and Banyan's times stand alone.
func TestCompareRecovery(t *testing.T) {
	out, r, ok := comparison(t, "--only ulfm --sample 1ms --max-time 1s")
	if !ok {
		return
	}
	require.Contains(t, out, "recovery of 32 ranks without a failure")
	require.Len(t, r.Curves, 4)
	for _, curve := range r.Curves {
		for i, p := range curve.Points {
			require.Equal(t, []string{"barrier:0", "agree:0", "shrink:0", "revoke:0"}[i], p.Label)
			for _, s := range p.Rounds[0].Samples {
				require.Positive(t, s.Seconds, p.Label)
			}
		}
	}
	want := []string{ours, ulfm, turns}
	if why := r.Absent[ulfm]; why != "" {
		require.Regexp(t, "version 5|not installed", why)
		want = []string{ours, turns}
	}
	var sampled []string
	for _, s := range r.Curves[0].Points[0].Rounds[0].Samples {
		sampled = append(sampled, s.Source)
	}
	require.ElementsMatch(t, want, sampled)
}

// A directory without an MPI is told by its name, and Banyan is measured alone.
func TestCompareRecoveryNamesTheDirectory(t *testing.T) {
	c := &contest{ulfm: "/nowhere", commands: map[string]string{}, absent: map[string]string{}}
	require.NoError(t, c.addRecoveries(t.Context()))
	require.Equal(t, "peers: openmpi-ulfm is not installed: there is no /nowhere/mpicc that can be run", c.absent[ulfm])
	require.Len(t, c.recoveries, 2)
	require.Equal(t, turns, c.recoveries[1].name)
}

// The bounds of the ledger are those of the sweeps. What the same takes without a library bounds nothing.
func TestRecoveriesHaveTheirBounds(t *testing.T) {
	c := &contest{recoveries: []collectiveRun{{name: ours}, {name: ulfm}, {name: turns}}}
	for _, s := range c.sweeps(groupULFM, sizeRange{}, 0) {
		points := s.Parts[0].Points
		require.Len(t, s.Parts[0].Sources, 3)
		for i, id := range []string{"", "B6-2", "", "B6-4"} {
			require.Equal(t, id, points[i].Bounds[0].ID)
			require.Equal(t, id != "", points[i].Bounds[0].Limit == 0.5)
			require.Equal(t, ulfm, points[i].Bounds[0].Over)
			require.Equal(t, compare.Bound{Over: turns, Ratio: points[i].Bounds[1].Ratio}, points[i].Bounds[1])
		}
	}
	alone := &contest{recoveries: []collectiveRun{{name: ours}}}
	require.Empty(t, alone.sweeps(groupULFM, sizeRange{}, 0)[0].Parts[0].Points[1].Bounds)
}

func TestULFMTools(t *testing.T) {
	require.Equal(t, "mpicc.openmpi", peers.ULFM("").Compiler)
	require.Equal(t, "mpicc", peers.ULFM("/opt/openmpi/bin").Compiler)
	require.Contains(t, peers.ULFM("/opt/openmpi/bin").Options, "--with-ft")
	require.NotContains(t, peers.OpenMPI.Options, "--with-ft")
}
