package fault

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/bench/kill"
)

// collectiveOf returns options that the tests change.
func collectiveOf(op Op, failures int) Collective {
	return Collective{
		Op: op, Ranks: 6, Failures: failures, Kill: kill.Worst, Sets: 2, Calls: 3, Size: 24,
		Designs: []string{"reroute", "lookup", "rebalance"}, Trees: []string{"binomial", "chain"},
	}
}

// complete checks that a result has all measured lines.
func complete(t *testing.T, o Collective, r *CollectiveResult) {
	t.Helper()
	require.Equal(t, o, r.Options)
	var got []Line
	for _, l := range r.Lines {
		got = append(got, l.Line)
		require.Len(t, l.Sets, o.Sets)
		for _, ns := range l.Sets {
			require.Positive(t, ns)
		}
		against := r.Against(l.Line)
		require.True(t, against.Baseline())
		require.Equal(t, l.Tree, against.Tree)
	}
	require.Equal(t, o.Lines(), got)
}

// A job of real ranks with victims is measured.
func TestCollective(t *testing.T) {
	for _, op := range CollectiveOps {
		failures := len(op) % 2 * 3 // 0 or 3
		t.Run(fmt.Sprintf("%s, %d failed", op, failures), func(t *testing.T) {
			o := collectiveOf(op, failures)
			var rest bytes.Buffer
			steps := 0
			r, err := o.Measure(t.Context(), processes("collective", op, failures), &rest, func() { steps++ })
			require.NoError(t, err)
			require.Equal(t, o.Sets, steps)
			complete(t, o, r)
			require.GreaterOrEqual(t, bytes.Count(rest.Bytes(), []byte(greeting)), o.Ranks-failures)
		})
	}
}

// inSimulator measures in virtual time.
func inSimulator(t *testing.T, o Collective) *CollectiveResult {
	t.Helper()
	r, err := o.Measure(t.Context(), o.Simulated(7, nil), io.Discard, nil)
	require.NoError(t, err)
	complete(t, o, r)
	return r
}

// Every operation gives the right data in every design, on every tree, after any failures, with a fixed
// root and with rotating ones.
func TestCollectiveSimulated(t *testing.T) {
	for _, op := range CollectiveOps {
		for _, order := range kill.Orders() {
			for _, failures := range []int{0, 5} {
				o := collectiveOf(op, failures)
				o.Ranks, o.Kill, o.Calls, o.Rotate = 13, order, 11, op.Rooted()
				o.Trees = []string{"binomial", "knomial:3"}
				inSimulator(t, o)
			}
		}
	}
}

// In virtual time the balanced design takes as long as the baseline. The designs that make the root the
// parent of many ranks take longer.
func TestCollectiveSimulatedTimes(t *testing.T) {
	o := collectiveOf(Barrier, 16)
	o.Ranks, o.Trees, o.Calls = 64, []string{"binomial"}, 20
	r := inSimulator(t, o)
	mean := make(map[string]float64)
	for _, l := range r.Lines {
		mean[l.Design] = l.Sets[1]
	}
	require.InEpsilon(t, mean["unaware"], mean["rebalance"], 0.01)
	require.Greater(t, mean["reroute"], 1.3*mean["rebalance"])
	require.Greater(t, mean["lookup"], 1.3*mean["rebalance"])
}

// The error names a failed rank. A job without a result is an error too.
func TestCollectiveRankFails(t *testing.T) {
	good := collectiveOf(Barrier, 0)
	_, err := good.Measure(t.Context(), processes("collective", "nothing", 0), io.Discard, nil)
	require.ErrorContains(t, err, "exited with code 3")
	require.ErrorContains(t, err, "fault nothing: no such operation")
	_, err = good.Measure(t.Context(), silentJob(nil), io.Discard, nil)
	require.ErrorContains(t, err, "without a result")
}

func TestCollectiveCheck(t *testing.T) {
	for want, spoil := range map[string]func(*Collective){
		"-n 1 is not within":      func(o *Collective) { o.Ranks, o.Failures = 1, 0 },
		"at most 4 may fail":      func(o *Collective) { o.Failures = 5 },
		"--failures -1":           func(o *Collective) { o.Failures = -1 },
		"--sets 0":                func(o *Collective) { o.Sets = 0 },
		"--ops 0":                 func(o *Collective) { o.Calls = 0 },
		"--size -8":               func(o *Collective) { o.Size = -8 },
		"integers of 8 bytes":     func(o *Collective) { o.Op, o.Size = Reduce, 12 },
		`no design "bold"`:        func(o *Collective) { o.Designs = []string{"bold"} },
		`no tree "oak"`:           func(o *Collective) { o.Trees = []string{"oak"} },
		"name at least one":       func(o *Collective) { o.Trees = nil },
		"no such operation: [bar": func(o *Collective) { o.Op = "sing" },
	} {
		o := collectiveOf(Barrier, 2)
		require.NoError(t, o.Check())
		spoil(&o)
		require.ErrorContains(t, o.Check(), want)
		_, err := o.Measure(t.Context(), nil, io.Discard, nil)
		require.ErrorContains(t, err, want)
	}
}

// The baseline of each tree is measured once, whether it is named or not.
func TestLines(t *testing.T) {
	o := Collective{Designs: []string{"rebalance", "unaware", "rebalance"}, Trees: []string{"flat", "chain"}}
	require.Equal(t, []Line{
		{"unaware", "flat"}, {"rebalance", "flat"}, {"unaware", "chain"}, {"rebalance", "chain"},
	}, o.Lines())
}

// In virtual time deaths are detected and repaired too, and equal seeds give equal times.
func TestUnknownSimulated(t *testing.T) {
	for _, op := range []Op{Bcast, Allreduce} {
		o := collectiveOf(op, 5)
		o.Ranks = 8
		measure := func(seed uint64) []Death {
			deaths, err := o.MeasureUnknown(t.Context(), 2, o.SimulatedUnknown(2, seed, nil), io.Discard, nil)
			require.NoError(t, err)
			return deaths
		}
		one := measure(1)
		require.Len(t, one, o.Failures)
		require.Equal(t, o.aware()[2], one[0].Line)
		require.Equal(t, one, measure(1))
		require.NotEqual(t, one, measure(2))
	}
}

// Every rank that dies during operations is one death, of a line in its turn, detected before it is
// repaired.
func TestUnknown(t *testing.T) {
	o := collectiveOf(Allreduce, 4)
	steps := 0
	start := processes("unknown", o.Op, o.Failures)
	deaths, err := o.MeasureUnknown(t.Context(), 1, start, io.Discard, func() { steps++ })
	require.NoError(t, err)
	require.Equal(t, o.Failures, steps)
	require.Len(t, deaths, o.Failures)
	for i, d := range deaths {
		require.Equal(t, i, d.Number)
		require.Equal(t, i+1, d.Rank)
		require.Equal(t, o.aware()[(1+i)%6], d.Line)
		require.Positive(t, d.Told)
		require.GreaterOrEqual(t, d.Repaired, d.Told)
	}
	for want, spoil := range map[string]func(*Collective){
		"want at least one": func(o *Collective) { o.Failures = 0 },
		"it would hang":     func(o *Collective) { o.Designs = []string{"unaware"} },
		"-n 0":              func(o *Collective) { o.Ranks = 0 },
	} {
		bad := o
		spoil(&bad)
		_, err := bad.MeasureUnknown(t.Context(), 0, nil, io.Discard, nil)
		require.ErrorContains(t, err, want)
	}
}

// By default the failures go from none to three quarters of the ranks.
func TestDefaultFailures(t *testing.T) {
	for n, want := range map[int][]int{
		2: {0}, 4: {0, 1, 2}, 16: {0, 1, 2, 4, 8, 12}, 20: {0, 1, 2, 4, 8, 15},
		512: {0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 384},
	} {
		require.Equal(t, want, DefaultFailures(n), "%d ranks", n)
	}
}

// Each fault-aware line has as many deaths as there are sets.
func TestUnknownJobs(t *testing.T) {
	o := collectiveOf(Barrier, 4) // six lines
	o.Sets = 2
	require.Equal(t, 3, o.UnknownJobs())
	o.Sets = 1
	require.Equal(t, 2, o.UnknownJobs())
}

// Lines are compared with the baseline of their tree, set by set.
func TestJudge(t *testing.T) {
	r := CollectiveResult{Lines: []Times{
		{Line{"unaware", "chain"}, []float64{100, 200, 400}}, {Line{"rebalance", "chain"}, []float64{101, 202, 404}},
		{Line{"reroute", "chain"}, []float64{200, 400, 800}},
	}}
	judged := r.Judge(true)
	require.Equal(t, "baseline", judged.Lines[0].Verdict)
	require.Equal(t, "equal", judged.Lines[1].Verdict)
	require.InDelta(t, 2, judged.Lines[1].Difference.Median, 1e-9)
	require.InDelta(t, 4, judged.Lines[1].Difference.High, 1e-9)
	require.Equal(t, "slower", judged.Lines[2].Verdict)
	require.Equal(t, "undecided", r.Judge(false).Lines[2].Verdict, "three sets have no interval")
}
