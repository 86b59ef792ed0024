package paper

import (
	"fmt"

	"github.com/banyan-hpc/banyan/bench/fault"
	"github.com/banyan-hpc/banyan/bench/figure"
	"github.com/banyan-hpc/banyan/bench/kill"
	"github.com/banyan-hpc/banyan/coll/tree"
)

// largestRebuilt is the job of figure 4.
const largestRebuilt = 1024

// The x axes of figures 3 and 4.
var (
	rebuildRanks  = []int{2, 4, 8, 16, 32, 64, 128, 256, 512, largestRebuilt}
	rebuildFailed = []int{0, 64, 128, 256, 384, 512, 640, 768, 896, 1008}
)

// Rebuilds are the measurements of figures 3 and 4, to be done by package rebalance, with so many
// rounds each.
func Rebuilds(rounds int) []fault.Planning {
	o := fault.Planning{Kill: kill.Worst, Designs: []tree.Design{tree.Rebalance}, Shapes: []tree.Shape{tree.Binomial},
		PerNode: 1, Rounds: rounds}
	growing, failing := o, o
	growing.Ranks, growing.Failures = rebuildRanks, failures(0)
	failing.Ranks, failing.Failures = []int{largestRebuilt}, failures(rebuildFailed[1:]...)
	return []fault.Planning{growing, failing}
}

func failures(numbers ...int) []fault.Failures {
	out := make([]fault.Failures, len(numbers))
	for i, n := range numbers {
		if err := out[i].UnmarshalText(fmt.Append(nil, n)); err != nil {
			panic(err) // they are the constants above
		}
	}
	return out
}

// rebuilding is §4.2.
func (b *builder) rebuilding() Section {
	s := Section{Title: "4.2 Rebalancing overhead", Words: []string{
		"The time of a rank to make its plan, in the worst order. There is nothing for the simulator to predict: no " +
			"message is sent. Measured: each living rank's plan in turn, on one core, the median of a few times " +
			"for each rank; minimum, mean and maximum are over the ranks, so N is the number of living ranks. The " +
			"paper's prototype projects ranks in a loop over all processes; here the living are counted in words " +
			"of 64."}}
	t := Table{Caption: fmt.Sprintf("Time to make the plan at %d processes: minimum, average, maximum over the ranks "+
		"(µs)", largestRebuilt),
		Head: []string{"failures", "paper", "predicted", "measured"}}
	for _, c := range rebuilds {
		here := absent
		if r, ok := b.m.plan(largestRebuilt, c.failures); ok {
			here = fmt.Sprintf("%.3f, %.3f, %.3f, N = %d", r.MinNs/1e3, r.MeanNs/1e3, r.MaxNs/1e3, r.Measured)
		}
		t.Rows = append(t.Rows, []string{fmt.Sprint(c.failures),
			fmt.Sprintf("%.1f, %.1f, %.1f", c.min, c.average, c.max), "not predicted", here})
	}
	s.Tables = []Table{t}
	s.Figures = []Figure{
		b.plans(3, "Figure 3, measured: time to rebalance without failures", processes, rebuildRanks,
			func(x int) (ranks, failures int) { return x, 0 }),
		b.plans(4, fmt.Sprintf("Figure 4, measured: time to rebalance %d processes, worst order", largestRebuilt),
			failed, rebuildFailed,
			func(x int) (ranks, failures int) { return largestRebuilt, x }),
	}
	return s
}

// plans is figure 3 or 4. Its y axis is logarithmic, for the sake of the paper's numbers.
func (b *builder) plans(number int, title string, x figure.Axis, at []int,
	job func(x int) (ranks, failures int)) Figure {
	chart := figure.Chart{Title: title, Fabric: noMessages, X: x, Y: logTime}
	lines := make([]figure.Series, 3)
	for i, name := range []string{"minimum", "average", "maximum"} {
		lines[i].Name = name + ", measured here"
	}
	printed := figure.Series{Name: "the paper: minimum, average, maximum", Dots: true}
	for _, v := range at {
		ranks, failures := job(v)
		if r, ok := b.m.plan(ranks, failures); ok {
			for i, ns := range []float64{r.MinNs, r.MeanNs, r.MaxNs} {
				lines[i].Points = append(lines[i].Points, figure.Point{X: float64(v), Y: ns / 1e3})
			}
		}
		for _, c := range rebuilds {
			if ranks == largestRebuilt && failures == c.failures {
				for _, us := range []float64{c.min, c.average, c.max} {
					printed.Points = append(printed.Points, figure.Point{X: float64(v), Y: us})
				}
			}
		}
	}
	for _, l := range append(lines, printed) {
		if len(l.Points) > 0 {
			chart.Series = append(chart.Series, l)
		}
	}
	return figureOf(number, chart)
}
