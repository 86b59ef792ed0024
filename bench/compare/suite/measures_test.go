package suite

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/bench/compare"
	"github.com/banyan-hpc/banyan/bench/peers"
)

// Curves without points are left out.
func TestChartsOfKeptSamples(t *testing.T) {
	point := func(x, before, after float64) *compare.CurvePoint {
		s := compare.Sample{Source: ours, Seconds: 1e-6, Before: before, After: after}
		return &compare.CurvePoint{X: x, Result: &compare.Result{Rounds: []compare.Round{{Samples: []compare.Sample{s}}}}}
	}
	moved := &compare.Curve{Name: groupNetpipe, Points: []*compare.CurvePoint{point(1, 1e-8, 1e-6)}}
	steady := &compare.Curve{Name: groupNetpipe,
		Points: []*compare.CurvePoint{point(1, 1e-8, 1e-8), point(2, 1e-8, 1e-8)}}
	require.Empty(t, (&Results{Curves: []*compare.Curve{{Name: groupNetpipe}}}).Charts())
	require.Empty(t, (&Results{Curves: []*compare.Curve{moved}}).Charts())
	require.Len(t, (&Results{Curves: []*compare.Curve{moved, steady}}).Charts(), 1)
}

// Every bound of docs/status.md is in a plan, and the peers that a bound names are sampled.
func TestPlansHaveTheBounds(t *testing.T) {
	c := &Comparison{Options: Options{Entries: []int{10, 10_000}}, runners: map[string]peers.Runner{}}
	for _, name := range []string{ours, unaware, roomy, ucx, openmpi, mpich, bare} {
		c.runners[name] = current{}
	}
	groups := []string{groupLatency, groupBandwidth, groupAware, groupMatch}
	got := map[string][]float64{}
	note := func(bounds []compare.Bound) {
		for _, b := range bounds {
			if b.ID != "" {
				got[b.ID] = append(got[b.ID], b.Limit)
			}
		}
	}
	for _, g := range groups {
		for _, p := range c.plans(g) {
			require.Contains(t, []string{ours, roomy}, p.Sources[0].Name, "the subject of %s", p.Name)
			note(p.Bounds)
		}
	}
	require.Equal(t, map[string][]float64{
		"B2-1": {0.9}, "B2-2": {1}, "B2-3": {1}, "B2-4": {1.5},
		"B2-5": {1, 0, 0}, "B2-6": {.95, .95, .95}, "B2-7": {.95, .95, .95}, "B2-8": {.95, .95, .95},
		"B2-9": {.95, .95, .95}, "B2-10": {.95, .95, .95},
		"B2-11": {1.012}, "B2-12": {1.004}, "B3-5": {3}, "B3-6": {3},
	}, got)
	require.ElementsMatch(t, []string{ours, unaware, roomy, ucx, openmpi, mpich}, names(groups))

	delete(c.runners, mpich)
	require.Len(t, c.latencyPlans()[0].Sources, 4, "what is not installed is left out")
}

// The bound is of the start of 64 ranks; NetPIPE's are in netpipe_test.go.
func TestStartupHasItsBound(t *testing.T) {
	c := &Comparison{Options: Options{Ranks: startupRanks},
		jobs: map[string][]jobRun{startups: {{name: ours}, {name: openmpi}, {name: mpich}}}}
	at64 := c.sweeps(groupStartup)[0].Parts[0].Points
	require.Equal(t, []compare.Bound{{ID: "B3-7", Over: openmpi, Ratio: compare.OfTimes, Limit: 1},
		{ID: "B3-7", Over: mpich, Ratio: compare.OfTimes}}, at64[0].Bounds)
	require.Zero(t, at64[1].Bounds[0].Limit, "the launcher's end is for information")
	c.Ranks = 5
	require.Empty(t, c.sweeps(groupStartup)[0].Parts[0].Points[0].Bounds[0].ID, "the ledger speaks of 64 ranks")
}

func TestMissed(t *testing.T) {
	rows := func(v ...compare.Verdict) *compare.Result {
		r := &compare.Result{}
		for _, verdict := range v {
			r.Rows = append(r.Rows, compare.Row{Verdict: verdict})
		}
		return r
	}
	curve := func(v compare.Verdict) []*compare.Curve {
		return []*compare.Curve{{Points: []*compare.CurvePoint{{Result: rows(v)}}}}
	}
	require.False(t, (&Results{Measures: []*compare.Result{rows(compare.Met, compare.Undecided, compare.Info), {}},
		Curves: curve(compare.Met)}).Missed())
	require.True(t, (&Results{Measures: []*compare.Result{rows(compare.Met, compare.Missed)}}).Missed())
	require.True(t, (&Results{Curves: curve(compare.Missed)}).Missed())
	require.True(t, (&Results{Curves: []*compare.Curve{{Middle: []compare.Row{{Verdict: compare.Missed}}}}}).Missed())
}

func TestVariables(t *testing.T) {
	require.Equal(t, []string{"GOMAXPROCS=1", "UCX_TLS=posix"},
		variables([]string{"UCX_TLS=posix", "HOME=/", "GOMAXPROCS=1"}))
}
