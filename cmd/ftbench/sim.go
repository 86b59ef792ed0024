package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/banyan-hpc/banyan/bench/budget"
	"github.com/banyan-hpc/banyan/bench/figure"
	"github.com/banyan-hpc/banyan/bench/kill"
	"github.com/banyan-hpc/banyan/bench/predict"
	"github.com/banyan-hpc/banyan/bench/predict/sweep"
	"github.com/banyan-hpc/banyan/bench/progressbar"
	"github.com/banyan-hpc/banyan/bench/report"
	"github.com/banyan-hpc/banyan/bench/table"
	"github.com/banyan-hpc/banyan/fabric/sim"
)

type simCmd struct {
	Machine  string       `arg:"" optional:"" default:"paper-2011" help:"A profile or a file of parameters. Default: ${default}."`
	Op       []string     `default:"barrier" placeholder:"OP" help:"barrier, bcast, reduce, allreduce, gather, scatter. Default: ${default}."`
	Design   []string     `default:"unaware,reroute,lookup,rebalance" placeholder:"D" help:"Designs. With failures, unaware stands for the same operation on a communicator of only the living ranks. Default: ${default}."`
	Tree     []string     `default:"binomial" placeholder:"TREE" help:"binomial, knomial:K, binary, chain, flat, node. Default: ${default}."`
	N        []int        `short:"n" type:"ranks" default:"512" placeholder:"RANKS" help:"Ranks, up to 1048576. Default: ${default}."`
	Failures []int        `default:"0" placeholder:"N" help:"How many of them are dead. Default: ${default}."`
	Kill     []kill.Order `default:"worst" placeholder:"ORDER" help:"worst: 1, 2, 3, …; best: from the highest rank down; average: parents and leaves evenly. Default: ${default}."`
	Bytes    []int        `default:"1024" placeholder:"BYTES" help:"Length of the data of every operation but barrier. Default: ${default}."`
	Rounds   int          `default:"300" help:"How often the operation is done in a row; the time is that of all, divided. Default: ${default}."`
	paceFlags
	Full  bool   `help:"Run the library's own engine in the full simulator: slower, without the costs of awareness; for designs whose ranks keep their places."`
	Write bool   `help:"Print the machine's parameters as a file to be changed, and do nothing else."`
	JSON  string `placeholder:"FILE" help:"Store all numbers and the parameters; -: print them, and the table on standard error."`
	Plot  string `placeholder:"FILE" help:"Draw time against failures, or against ranks where there are several numbers of them; .svg or .png."`
}

func (simCmd) Help() string {
	return `How long collective operations take on a described machine, in virtual time. Profiles:
` + strings.Join(sim.Profiles(), ", ") + `. docs/benchmarks.md explains the numbers.

Examples:
  ftbench sim
  ftbench sim paper-2011 --op barrier,bcast --failures 0,64,128,256,384,496 --kill worst,average,best
  ftbench sim infiniband -n 1024,16384,1048576 --design rebalance --tree binomial,knomial:4,node --rounds 3
  ftbench sim paper-2011 --write > mine.json
  ftbench sim mine.json --op allreduce --bytes 8,1024 --json results/sim.json`
}

func (c *simCmd) Run(to *call) error {
	machine, err := predict.Load(c.Machine)
	if err != nil {
		return usage(err)
	}
	if c.Write {
		b, err := json.MarshalIndent(machine, "", "  ")
		if err == nil {
			_, err = fmt.Fprintf(to.out, "%s\n", b)
		}
		return err
	}
	if err := c.checkTime(); err != nil {
		return err
	}
	c.atMost(&c.Rounds, 10)
	grid := sweep.Grid{
		Machine: machine, Ops: c.Op, Designs: c.Design, Trees: c.Tree, Ranks: c.N, Failures: c.Failures,
		Orders: c.Kill,
		Bytes:  c.Bytes, Rounds: c.Rounds, Full: c.Full,
	}
	cases, err := grid.Cases()
	if err != nil {
		return usage(err)
	}
	if c.Plot != "" {
		if err := figure.Check(c.Plot); err != nil {
			return usage(err)
		}
		if n := grid.Lines(); n > figure.MaxSeries {
			return usagef("--plot: %d lines in one picture, at most %d can be told apart: ask for fewer designs, "+
				"trees or orders", n, figure.MaxSeries)
		}
	}
	if err := checkFiles(c.JSON, c.Plot); err != nil {
		return err
	}
	file := report.Begin("sim")
	results := simResults{Machine: machine, Rounds: c.Rounds}
	if err := c.run(&grid, cases, &results, to); err != nil {
		return err
	}
	if c.Plot != "" {
		if err := figure.Save(c.Plot, figure.WithSource(file.Source, grid.Charts(c.Machine, results.Rows)...)...); err != nil {
			return err
		}
	}
	return to.store(file, c.JSON, results)
}

// simResults are the results in the JSON file.
type simResults struct {
	Machine predict.Parameters `json:"machine"`
	Rounds  int                `json:"rounds"`
	Rows    []sweep.Row        `json:"rows"`
	Cut     *budget.Cut        `json:"cut,omitempty"` // of --max-time
}

// run predicts the cases and prints a line for each.
func (c *simCmd) run(grid *sweep.Grid, cases []sweep.Case, results *simResults, to *call) error {
	limit := c.budget()
	announce(to.err, "sim", c.time(cases), c.MaxTime)
	out := to.words(c.JSON).out
	bar := progressbar.Start(to.err, "sim", len(cases))
	defer bar.Stop()
	t := table.Table{
		W: bar.Over(out), Keys: 7,
		Title: fmt.Sprintf("# %s: virtual time of one operation, of %d in a row", grid.Machine.Name, c.Rounds),
		Columns: []table.Column{{Name: "# Op", Width: 9, Left: true}, {Name: "Bytes"}, {Name: "Ranks", Width: 7},
			{Name: "Failed"}, {Name: "Kill", Width: 7}, {Name: "Design", Width: 9}, {Name: "Tree", Width: 8},
			{Name: "Time (us)", Width: 9, Format: "%.3f"}, {Name: "Degree"}, {Name: "Depth", Joined: true}},
	}
	if err := t.Begin(); err != nil {
		return err
	}
	for i, k := range cases {
		if limit.Over() {
			results.Cut = limit.Cut(i, len(cases), "predictions")
			break
		}
		row, err := grid.Predict(k)
		if err != nil {
			return err
		}
		results.Rows = append(results.Rows, row)
		bar.Step(1)
		err = t.Row(row.Op, row.Bytes, row.Ranks, row.Failed, row.Kill, row.Design, row.Tree, row.Micros, row.Degree,
			row.Depth)
		if err != nil {
			return err
		}
	}
	return cmp.Or(t.End(), results.Cut.Nothing(), printCut(t.W, results.Cut))
}

// time is about how long the predictions take.
func (c *simCmd) time(cases []sweep.Case) (all time.Duration) {
	each := 400 * time.Nanosecond // of an operation, for each rank
	if c.Full {
		each *= 20
	}
	for _, k := range cases {
		all += time.Duration(c.Rounds*k.Living()) * each
	}
	return all
}
