package suite

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/bench/compare"
	"github.com/banyan-hpc/banyan/bench/figure"
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

// At few sizes charts have columns with intervals, on a linear axis where one can show all; at many they have lines.
func TestChartsOfFewSizes(t *testing.T) {
	curve := func(sizes int, slower float64) *compare.Curve {
		c := &compare.Curve{Name: groupTCP}
		for i := range sizes {
			p := &compare.CurvePoint{X: float64(int(1) << (16 + i)), Result: &compare.Result{}}
			for round := range 6 {
				seconds := p.X * (1e-9 + 1e-11*float64(round))
				p.Rounds = append(p.Rounds, compare.Round{Samples: []compare.Sample{
					{Source: ours, Seconds: seconds, Before: 1e-8, After: 1e-8},
					{Source: nptcp, Seconds: slower * seconds, Before: 1e-8, After: 1e-8},
				}})
			}
			c.Points = append(c.Points, p)
		}
		return c
	}
	draw := func(sizes int, slower float64) figure.Chart {
		charts := (&Results{Curves: []*compare.Curve{curve(sizes, slower)}}).Charts()
		require.Len(t, charts, 1)
		return charts[0]
	}
	few := draw(8, 2)
	require.True(t, few.Columns)
	require.Equal(t, figure.Linear, few.Y.Unit)
	for _, s := range few.Series {
		for _, p := range s.Points {
			require.Less(t, p.Low, p.Y)
			require.Greater(t, p.High, p.Y)
		}
	}
	require.InDelta(t, 8/1e-9/(1<<20), few.Series[0].Points[0].High, 1)
	require.Equal(t, figure.Decimal, draw(8, 30).Y.Unit, "a column of a thirtieth would not be seen")
	many := draw(9, 2)
	require.False(t, many.Columns)
	require.Zero(t, many.Series[0].Points[0].High)
}

// Every bound of docs/status.md is in a plan, and the peers that a bound names are sampled.
func TestPlansHaveTheBounds(t *testing.T) {
	c := &Comparison{Options: Options{Entries: []int{10, 10_000}}, runners: map[string]peers.Runner{}}
	for _, name := range []string{ours, unaware, roomy, ucx, openmpi, mpich, bare, oursRMA, openmpiRMA, mpichRMA, oursVerbs,
		sendLatency, writeLatency, writeAlone, readLatency, sendRate, writeRate, readRate} {
		c.runners[name] = current{}
	}
	groups := []string{groupLatency, groupBandwidth, groupAware, groupMatch, groupRMA, groupVerbs}
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
			require.Contains(t, []string{ours, roomy, oursRMA, oursVerbs}, p.Sources[0].Name, "the subject of %s", p.Name)
			note(p.Bounds)
		}
	}
	require.Equal(t, map[string][]float64{
		"B2-1": {0.9}, "B2-2": {1}, "B2-3": {1}, "B2-4": {1.5},
		"B2-5": {1, 0, 0}, "B2-6": {.95, .95, .95}, "B2-7": {.95, .95, .95}, "B2-8": {.95, .95, .95},
		"B2-9": {.95, .95, .95}, "B2-10": {.95, .95, .95},
		"B2-11": {1.012}, "B2-12": {1.004}, "B3-5": {3}, "B3-6": {3},
		"B20-2": {.8, .8, .8, .8, .8, .8}, "B20-6": {1, 1}, "B21-1": {1.25}, "B21-2": {.9, .9, .9, .9}, "B21-3": {1.25, 1.25},
	}, got)
	require.ElementsMatch(t, []string{ours, unaware, roomy, ucx, openmpi, mpich, oursRMA, openmpiRMA, mpichRMA,
		oursVerbs, sendLatency, writeLatency, writeAlone, readLatency, sendRate, writeRate, readRate}, names(groups))

	delete(c.runners, mpich)
	require.Len(t, c.latencyPlans()[0].Sources, 4, "what is not installed is left out")
	require.Len(t, c.remotePlans(), 6)
	require.Len(t, c.remotePlans()[3].Sources, 3)
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

// constant is an implementation whose messages take a microsecond.
type constant struct{}

func (constant) Run(_ context.Context, j peers.Job) (time.Duration, error) {
	return time.Duration(j.Messages() * float64(time.Microsecond)), nil
}

// The control of cores does not spoil samples of an adapter, and no other distance of cores is waited for.
func TestAdaptersHaveNoControl(t *testing.T) {
	c := &Comparison{Options: Options{Sample: time.Millisecond}, runners: map[string]peers.Runner{oursVerbs: constant{}}}
	for name := range perftests {
		c.runners[name] = constant{}
	}
	changes := 1e-6
	r := &compare.Runner{
		Measure: func(context.Context) (float64, error) {
			changes *= 2
			return changes, nil
		},
		Limits: compare.Limits{MinPairs: 9, MaxRounds: 20, MaxDrift: MaxDrift, Seek: true},
	}
	var got Results
	require.NoError(t, c.group(t.Context(), groupVerbs, r, &got, io.Discard))
	require.Len(t, got.Measures, 6)
	for _, m := range got.Measures {
		require.Zero(t, m.Dropped, m.Name)
		for _, row := range m.Rows {
			require.Equal(t, 9, row.Ratio.N, m.Name)
		}
	}
}
