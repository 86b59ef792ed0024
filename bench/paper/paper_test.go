package paper

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/bench/fault"
	"github.com/banyan-hpc/banyan/bench/kill"
	"github.com/banyan-hpc/banyan/bench/predict"
	"github.com/banyan-hpc/banyan/coll/tree"
	"github.com/banyan-hpc/banyan/fabric/sim"
)

// Table 1 as fitted within 10 %; table 2, to which nothing is fitted, within 15 %, and its ratios
// within 10 %.
func TestTables(t *testing.T) {
	got := map[Cell]float64{}
	for _, c := range append(append([]Cell(nil), Table1...), Table2...) {
		us, err := c.Predict()
		require.NoError(t, err)
		got[c] = us
	}
	for _, c := range Table1 {
		require.InEpsilon(t, c.Printed, got[c], 0.10, "%+v", c)
	}
	for _, c := range Table2 {
		require.InEpsilon(t, c.Printed, got[c], 0.15, "%+v", c)
	}
	for i, want := range []float64{4.44, 2.23, 1.00} {
		require.InEpsilon(t, want, got[Table2[i]]/got[Table2[i+3]], 0.10, i)
	}
}

// The built-in parameters are where the fit ends: no step of it from there makes the errors
// smaller.
func TestFittedIsTheBest(t *testing.T) {
	best, err := misfit(sim.Fitted)
	require.NoError(t, err)
	for _, m := range moves {
		const step = sim.Microsecond / 8
		e, err := misfit(sim.Paper2011{Engine: sim.Fitted.Engine + step*m[0], Latency: sim.Fitted.Latency + step*m[1]})
		require.NoError(t, err)
		require.Greater(t, e, 0.999*best)
	}
	far, err := misfit(sim.Paper2011{Engine: 2 * sim.Fitted.Engine, Latency: sim.Fitted.Latency})
	require.NoError(t, err)
	require.Greater(t, math.Sqrt(far), 3*math.Sqrt(best))
}

// Figures 1 and 2, 16 ranks of which 1 to 4 have failed: rerouted, the root has eight children;
// rebalanced, the tree has its form again.
func TestDrawings(t *testing.T) {
	four := strings.Split(draw(tree.Reroute), "NP = ")[3]
	require.Equal(t, "16, F = 4\n0\n├─ 7\n│  └─ 15\n├─ 11\n├─ 5\n│  └─ 13\n├─ 9\n├─ 6\n│  └─ 14\n├─ 10\n├─ 12\n└─ 8\n\n", four)
	four = strings.Split(draw(tree.Rebalance), "NP = ")[3]
	require.Equal(t, 4, strings.Count(four, "\n├─")+strings.Count(four, "\n└─"))
}

// A report has all figures, both tables and the differences, in both formats; foreign text is
// escaped.
func TestReport(t *testing.T) {
	r := Report{Title: "a < b", Sections: []Section{{Title: "S & T", Words: []string{"w"}, Drawing: "0\n└─ 1\n",
		Tables:  []Table{{Caption: "c", Head: []string{"x", "y"}, Rows: [][]string{{"1", "<2>"}}}},
		Figures: []Figure{{File: "f.svg", Title: "F"}}}}}
	md := r.Markdown()
	require.Contains(t, md, "# a < b\n\n## S & T\n\nw\n\n```text\n0\n└─ 1\n```\n\nc\n\n| x | y |\n|---|---|\n| 1 | <2> |\n\n![F](f.svg)\n")
	page := r.HTML()
	require.Contains(t, page, "<h1>a &lt; b</h1>")
	require.Contains(t, page, "<td>&lt;2&gt;</td>")
	require.Contains(t, page, `<img src="f.svg" alt="F">`)
	require.True(t, strings.HasSuffix(page, "</html>\n"))
}

// All that is to be measured is once among the experiments, can be measured, and has a place in the
// report: the quarters of each number of ranks in all orders, and the paper's failures at the
// largest.
func TestExperiments(t *testing.T) {
	all := Experiments(Size{Ranks: []int{16, 64}, Sets: 6, Calls: 20})
	m := &Measured{}
	for _, e := range all {
		require.NoError(t, e.Check(), "%v", e)
		require.Len(t, m.Lacking([]Experiment{e}), 1, "%v is there twice", e)
		if e.Unknown {
			m.Deaths = append(m.Deaths, Deaths{Options: e.Collective, Number: e.Number})
		} else {
			m.Jobs = append(m.Jobs, &fault.CollectiveResult{Options: e.Collective})
		}
	}
	require.Empty(t, m.Lacking(all))
	require.Equal(t, []int{16, 64}, m.ranks())
	var seen []int
	for _, e := range all {
		if e.Op == fault.Bcast && e.Size == bcastBytes && e.Ranks == 64 && e.Kill == kill.Average {
			seen = append(seen, e.Failures)
		}
	}
	require.Equal(t, []int{1, 2, 4, 8, 12, 16, 24, 32, 40, 48, 56, 62}, seen)
	more := Size{Ranks: []int{16, 64}, Sets: 30, Calls: 300}
	for _, e := range m.Lacking(Experiments(more)) {
		require.True(t, e.Unknown, "a job that has been done is done, whatever its sets: %v", e)
	}
	for want, s := range map[string]Size{"--ranks 3": {Ranks: []int{3}, Sets: 1, Calls: 1},
		"at least one": {Ranks: []int{4}, Sets: 0, Calls: 1}} {
		require.ErrorContains(t, s.Check(), want)
	}
}

// Ratios and differences are of sets of the same turn: a machine that is slower in one turn changes
// neither.
func TestPairs(t *testing.T) {
	line := func(d tree.Design, ns ...float64) fault.Times {
		return fault.Times{Line: fault.Line{Design: d.String(), Tree: "binomial"}, Sets: ns}
	}
	m := &Measured{Jobs: []*fault.CollectiveResult{{
		Options: fault.Collective{Op: fault.Barrier, Ranks: 8, Failures: 4, Kill: kill.Worst},
		Lines: []fault.Times{line(tree.Unaware, 1e3, 2e3, 3e3, 9e3, 5e3, 6e3),
			line(tree.Reroute, 2e3, 4e3, 6e3, 18e3, 10e3, 12e3)},
	}}}
	k := point{op: predict.Barrier, design: tree.Reroute, ranks: 8, failures: 4}
	base := k
	base.design = tree.Unaware
	require.Equal(t, "2.000 (2.000…2.000), N = 6", ratioText(m.over(k, base)))
	require.Equal(t, "4.00 (1.00…9.00), N = 6", timeText(m.beyond(k, base))[:len("4.00 (1.00…9.00), N = 6")])
	require.Equal(t, 8.0, m.time(k).Median)
	k.order = kill.Best
	require.Equal(t, absent, timeText(m.time(k)), "another order is another measurement")
}

// The tables of a quick report state the effect of its few operations and sets on the numbers.
func TestQuickTablesSayWhatFewRoundsDo(t *testing.T) {
	b := builder{p: &predictor{rounds: Rounds}, m: &Measured{}}
	require.Empty(t, b.note(predict.Bcast), "as in the paper")
	b.p.rounds = 10
	b.m.Jobs = []*fault.CollectiveResult{{Options: fault.Collective{Sets: 12}}, {Options: fault.Collective{Sets: 6}}}
	require.Contains(t, b.note(predict.Barrier), "Predicted with 10 operations in a row instead of 300: a barrier is "+
		"predicted too long")
	require.Contains(t, b.note(predict.Bcast), "too short, with 10 in a row by 2 to 13 %")
	require.Contains(t, b.note(predict.Bcast), "it has no noise and no interval")
	require.Contains(t, b.note(predict.Bcast), "With --sets 6 measured medians have an interval from the least to")
	b.m.Jobs[1].Options.Sets = 5
	require.Contains(t, b.note(predict.Bcast), "With --sets 5 measured medians have no interval.")
	r := Report{Sections: []Section{{Tables: []Table{{Caption: "c", Note: b.note(predict.Bcast)}}}}}
	require.Contains(t, r.Markdown(), "\n\nPredicted with 10 operations")
	require.Contains(t, r.HTML(), "<p>Predicted with 10 operations")
}

// The difference from 0 is no number.
func TestPercent(t *testing.T) {
	require.Equal(t, "+50.0 %", percent(3, 2))
	require.Equal(t, "-", percent(3, 0), "nothing can be said against 0")
	require.Equal(t, "-", percent(0, 0))
	require.Equal(t, "-", ratio(math.Inf(1)))
	require.Equal(t, "-", number(math.NaN()))
}
