package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/banyan-hpc/banyan/bench/budget"
	"github.com/banyan-hpc/banyan/bench/fault"
	"github.com/banyan-hpc/banyan/bench/figure"
	"github.com/banyan-hpc/banyan/bench/kill"
	"github.com/banyan-hpc/banyan/bench/progressbar"
	"github.com/banyan-hpc/banyan/bench/report"
	"github.com/banyan-hpc/banyan/bench/table"
	"github.com/banyan-hpc/banyan/coll/tree"
)

type faultRebalanceCmd struct {
	N        []int            `short:"n" type:"ranks" default:"2,4,8,16,32,64,128,256,512,1024,8192,65536,1000000" placeholder:"RANKS" help:"Numbers of ranks, the failed ones included. Default: ${default}."`
	Failures []fault.Failures `default:"0,50%,87.5%,98%" placeholder:"RANKS" help:"How many have failed: numbers or shares. Default: ${default}."`
	Kill     kill.Order       `default:"worst" help:"Which have failed, of: worst, average, best; ranks 1, 2, 3 …, half of them and the leaves below them, or the highest ranks. Default: ${default}."`
	Design   []string         `default:"reroute,rebalance" placeholder:"NAMES" help:"Designs, of unaware, reroute, lookup, rebalance. Default: ${default}."`
	Tree     []string         `default:"binomial" placeholder:"NAMES" help:"Trees, of binomial, knomial:K, binary, chain, flat, node. Default: ${default}."`
	PerNode  int              `name:"per-node" default:"16" placeholder:"RANKS" help:"Ranks of each node, for --tree node. Default: ${default}."`
	Rounds   int              `default:"5" help:"How often each rank is measured; the median counts. Default: ${default}."`
	paceFlags
	Plot []string `placeholder:"FILE" help:"Draw the times against the ranks and against the failures; .svg or .png, or both with a comma."`
	JSON string   `placeholder:"FILE" help:"Store all times and the environment; -: print them, and the table on standard error."`
}

func (faultRebalanceCmd) Help() string {
	return `How long a rank takes to find its parent and its children in the tree of a collective
operation: the least, the mean and the greatest over the ranks that live. No job is started: plans are
arithmetic, and are computed here for one rank after the other; of more than 1024 ranks for
1024 of them at equal distances and the root. First is the time once after each agreement on failures:
from a bit for each rank to the root's first plan. With 1024 ranks the mean is compared with that of
Hursey and Graham's prototype (figures 3 and 4). Exit code 3: it is over a microsecond
where none or 896 have failed, in a rebalanced binomial tree.

Examples:
  ftbench fault rebalance
  ftbench fault rebalance -n 1024 --failures 0,8,64,512,896,1008 --plot rebalance.svg
  ftbench fault rebalance -n 1024,1000000 --design reroute,lookup,rebalance --tree binomial,knomial:4,node
  ftbench fault rebalance --kill average --failures 50% --json results/rebalance.json`
}

// rebalanceResults are the results in the JSON file.
type rebalanceResults struct {
	Options fault.Planning    `json:"options"`
	Trees   []fault.Plan      `json:"trees"`
	Bounds  []fault.PlanBound `json:"bounds,omitempty"`
	Cut     *budget.Cut       `json:"cut,omitempty"` // of --max-time
}

// options are those of the harness.
func (c *faultRebalanceCmd) options() (fault.Planning, error) {
	if few := slices.DeleteFunc(slices.Clone(c.N), func(n int) bool { return n > 1024 }); c.Quick && len(few) > 0 {
		c.N = few
	}
	c.atMost(&c.Rounds, 3)
	o := fault.Planning{Budget: c.budget(), Ranks: c.N, Failures: c.Failures, Kill: c.Kill, PerNode: c.PerNode, Rounds: c.Rounds}
	for _, text := range c.Design {
		d, err := tree.ParseDesign(text)
		if err != nil {
			return o, fmt.Errorf("--design: %w", err)
		}
		o.Designs = append(o.Designs, d)
	}
	for _, text := range c.Tree {
		s, err := tree.ParseShape(text)
		if err != nil {
			return o, fmt.Errorf("--tree: %w", err)
		}
		o.Shapes = append(o.Shapes, s)
	}
	return o, cmp.Or(c.checkTime(), o.Check())
}

func (c *faultRebalanceCmd) Run(to *call) error {
	o, err := c.options()
	if err != nil {
		return usage(err)
	}
	for _, path := range c.Plot {
		if err := figure.Check(path); err != nil {
			return usage(err)
		}
		if n := len(o.Designs) * len(o.Shapes); n > rebalanceLines {
			return usagef("--plot: %d designs of trees, at most %d can be told apart in a figure", n, rebalanceLines)
		}
	}
	if err := checkFiles(append(slices.Clone(c.Plot), c.JSON)...); err != nil {
		return err
	}
	ctx, stop := interruptible()
	defer stop()
	file := report.Begin("fault-rebalance")
	results, err := c.measure(ctx, o, to)
	if err != nil {
		return orInterrupt(ctx, err)
	}
	for _, path := range c.Plot {
		if err := figure.Save(path, figure.WithSource(file.Source, rebalanceCharts(results.Trees)...)...); err != nil {
			return err
		}
	}
	if err := to.store(file, c.JSON, results); err != nil {
		return err
	}
	out := to.words(c.JSON).out
	if _, err := io.WriteString(out, named("files:", append(slices.Clone(c.Plot), c.JSON)...)); err != nil {
		return err
	}
	if slices.ContainsFunc(results.Bounds, func(b fault.PlanBound) bool { return !b.Met }) {
		return exitCode(exitMissed)
	}
	return nil
}

// measure prints the table.
func (c *faultRebalanceCmd) measure(ctx context.Context, o fault.Planning, to *call) (*rebalanceResults, error) {
	announce(to.err, "fault rebalance", rebalanceTime(o), c.MaxTime)
	bar := progressbar.Start(to.err, "fault rebalance", o.Cells())
	defer bar.Stop()
	out := bar.Over(to.words(c.JSON).out)
	rows := table.Table{
		W: out, Keys: 4, Title: fmt.Sprintf("# Banyan plan of a rank, µs; %s failures, median of %d, over the ranks that live",
			c.Kill, c.Rounds),
		Columns: []table.Column{{Name: "# Design", Width: 9, Left: true}, {Name: "Tree", Width: 8, Left: true},
			{Name: "Ranks", Width: 7}, {Name: "Failed"}, {Name: "Min", Width: 6, Format: "%.3f"},
			{Name: "Mean", Width: 6, Format: "%.3f"}, {Name: "Max", Width: 8, Format: "%.3f"},
			{Name: "First", Width: 8, Format: "%.2f"}, {Name: "Degree"}},
	}
	if err := rows.Begin(); err != nil {
		return nil, err
	}
	results := &rebalanceResults{Options: o}
	err := o.Measure(ctx, func(r fault.Plan) error {
		results.Trees = append(results.Trees, r)
		bar.Step(1)
		return rows.Row(r.Design, r.Shape, r.Ranks, r.Failures, r.MinNs/1e3, r.MeanNs/1e3, r.MaxNs/1e3,
			float64(r.First)/1e3, r.Degree)
	})
	if results.Cut, err = cutOf(err); err != nil {
		return nil, err
	}
	if err := cmp.Or(rows.End(), printCut(out, results.Cut)); err != nil {
		return nil, err
	}
	results.Bounds = fault.JudgePlans(results.Trees, c.Kill)
	for _, b := range results.Bounds {
		verdict := "met"
		if !b.Met {
			verdict = "missed"
		}
		if err := table.Printf(out, "# %d ranks, %d failed: mean %.3f µs, the prototype of 2011 %.1f, bound %g: %s\n",
			fault.BoundRanks, b.Failures, b.Mean, b.Paper, b.Limit, verdict); err != nil {
			return nil, err
		}
	}
	return results, nil
}

// rebalanceTime is about how long the measurement takes: 1024 ranks of each tree at most are measured.
func rebalanceTime(o fault.Planning) (all time.Duration) {
	for _, n := range o.Ranks {
		trees := len(o.Failures) * len(o.Designs) * len(o.Shapes)
		all += time.Duration(trees*o.Rounds) * (time.Duration(min(n, 1024))*8*time.Microsecond + time.Duration(n)*100)
	}
	return all
}

// rebalanceCharts are the paper's figure 3, if there is more than one number of ranks, and its figure 4, if there are failures at fault.BoundRanks or
// else the largest of them.
func rebalanceCharts(trees []fault.Plan) []figure.Chart {
	fewest, most, at := trees[0].Failures, 0, 0
	for _, r := range trees {
		fewest, most = min(fewest, r.Failures), max(most, r.Ranks)
		if r.Ranks == fault.BoundRanks {
			at = fault.BoundRanks
		}
	}
	at = cmp.Or(at, most)
	y := figure.Axis{Title: "time of a plan (µs)"}
	var charts []figure.Chart
	byRanks := rebalanceSeries(trees, func(r fault.Plan) (int, bool) { return r.Ranks, r.Failures == fewest })
	if len(byRanks[0].Points) > 1 {
		charts = append(charts, figure.Chart{Title: fmt.Sprintf("A rank's plan, %d failures", fewest), Fabric: onePlan,
			X: figure.Axis{Title: "ranks", Unit: figure.Doubling}, Y: y, Series: byRanks})
	}
	byFailures := rebalanceSeries(trees, func(r fault.Plan) (int, bool) { return r.Failures, r.Ranks == at && r.Failures > 0 })
	if len(byFailures) > 0 {
		charts = append(charts, figure.Chart{Title: fmt.Sprintf("A rank's plan, %d ranks", at), Fabric: onePlan,
			X: figure.Axis{Title: "failed ranks", Unit: figure.Doubling}, Y: y, Series: byFailures})
	}
	return charts
}

// rebalanceLines is how many means fit in a figure beside the paper's; there is room for bands from the least to
// the greatest if there are no more than two.
const rebalanceLines = 6

// prototype is the name of the paper's values, onePlan replaces a fabric.
const (
	prototype = "prototype of 2011, mean"
	onePlan   = "no messages, one core"
)

// rebalanceSeries are the times of each design and tree against the value of the function of, if it has
// one, and the paper's values there.
func rebalanceSeries(trees []fault.Plan, of func(fault.Plan) (x int, ok bool)) []figure.Series {
	kinds := map[[2]string]bool{}
	for _, r := range trees {
		kinds[[2]string{r.Design, r.Shape}] = true
	}
	var lines seriesByName
	for _, r := range trees {
		x, ok := of(r)
		if !ok {
			continue
		}
		name := r.Design
		if r.Shape != tree.Binomial.String() {
			name += " " + r.Shape
		}
		if len(kinds) > 2 {
			lines.add(name+", mean", float64(x), r.MeanNs/1e3)
		} else {
			lines.put(name+": mean, band from the least to the greatest",
				figure.Point{X: float64(x), Y: r.MeanNs / 1e3, Low: r.MinNs / 1e3, High: r.MaxNs / 1e3})
		}
		if us, ok := r.PaperMean(); ok {
			lines.add(prototype, float64(x), us)
		}
	}
	for i := range lines.list {
		lines.list[i].Dots = lines.list[i].Name == prototype
		lines.list[i].Band = !lines.list[i].Dots && len(kinds) <= 2
	}
	return lines.list
}
