package main

import (
	"encoding/json"
	"fmt"
	"strings"

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
	Design   []string     `default:"unaware,reroute,lookup,rebalance" placeholder:"D" help:"Designs. With failures, unaware stands for the same operation on a communicator of only those who live. Default: ${default}."`
	Tree     []string     `default:"binomial" placeholder:"TREE" help:"binomial, knomial:K, binary, chain, flat, node. Default: ${default}."`
	N        []int        `short:"n" type:"ranks" default:"512" placeholder:"RANKS" help:"Ranks, up to 1048576. Default: ${default}."`
	Failures []int        `default:"0" placeholder:"N" help:"How many of them are dead. Default: ${default}."`
	Kill     []kill.Order `default:"worst" placeholder:"ORDER" help:"worst: 1, 2, 3, …; best: from the highest rank down; average: parents and leaves evenly. Default: ${default}."`
	Bytes    []int        `default:"1024" placeholder:"BYTES" help:"Length of the data of every operation but barrier. Default: ${default}."`
	Rounds   int          `default:"300" help:"How often the operation is done in a row; the time is that of all, divided. Default: ${default}."`
	Full     bool         `help:"Run the library's own engine in the full simulator: slower, without the costs of awareness; for designs whose ranks keep their places."`
	Write    bool         `help:"Print the machine's parameters as a file to be changed, and do nothing else."`
	JSON     string       `placeholder:"FILE" help:"Store all numbers and the parameters; -: print them, and the table on standard error."`
	Plot     string       `placeholder:"FILE" help:"Draw time against failures, or against ranks where there are several numbers of them; .svg or .png."`
}

// Help has the examples.
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

// Run predicts.
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
	if results.Rows, err = c.run(&grid, cases, to); err != nil {
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
}

// run predicts the cases and prints a line for each.
func (c *simCmd) run(grid *sweep.Grid, cases []sweep.Case, to *call) ([]sweep.Row, error) {
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
		return nil, err
	}
	var rows []sweep.Row
	for _, k := range cases {
		row, err := grid.Predict(k)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
		bar.Step(1)
		err = t.Row(row.Op, row.Bytes, row.Ranks, row.Failed, row.Kill, row.Design, row.Tree, row.Micros, row.Degree,
			row.Depth)
		if err != nil {
			return nil, err
		}
	}
	return rows, t.End()
}
