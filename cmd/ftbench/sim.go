package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/banyan-hpc/banyan/bench/figure"
	"github.com/banyan-hpc/banyan/bench/kill"
	"github.com/banyan-hpc/banyan/bench/predict"
	"github.com/banyan-hpc/banyan/bench/progressbar"
	"github.com/banyan-hpc/banyan/bench/report"
	"github.com/banyan-hpc/banyan/coll/tree"
	"github.com/banyan-hpc/banyan/fabric/sim"
)

type simCmd struct {
	Machine  string       `arg:"" optional:"" default:"paper-2011" help:"A profile or a file of parameters. Default: ${default}."`
	Op       []string     `default:"barrier" placeholder:"OP" help:"barrier, bcast, reduce, allreduce, gather, scatter. Default: ${default}."`
	Design   []string     `default:"unaware,reroute,lookup,rebalance" placeholder:"D" help:"Designs. With failures, unaware stands for the same operation on a communicator of only those who live. Default: ${default}."`
	Tree     []string     `default:"binomial" placeholder:"TREE" help:"binomial, knomial:K, binary, chain, flat, node. Default: ${default}."`
	N        []int        `short:"n" default:"512" placeholder:"RANKS" help:"Ranks, up to 1048576. Default: ${default}."`
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
` + strings.Join(sim.Profiles(), ", ") + `. docs/paper.md says what the numbers mean.

Examples:
  ftbench sim
  ftbench sim paper-2011 --op barrier,bcast --failures 0,64,128,256,384,496 --kill worst,average,best
  ftbench sim infiniband -n 1024,16384,1048576 --design rebalance --tree binomial,knomial:4,node --rounds 3
  ftbench sim paper-2011 --write > mine.json
  ftbench sim mine.json --op allreduce --bytes 8,1024 --json results/sim.json`
}

// simRow is one line of the table.
type simRow struct {
	Op     string `json:"op"`
	Bytes  int    `json:"bytes"`
	Ranks  int    `json:"ranks"`
	Failed int    `json:"failed"`
	Kill   string `json:"kill"`
	Design string `json:"design"`
	Tree   string `json:"tree"`
	// Micros is the virtual time of one operation.
	Micros   float64 `json:"time_us"`
	Degree   int     `json:"degree"`
	Depth    int     `json:"depth"`
	Messages int     `json:"messages"`
}

// simResults are the results in the JSON file.
type simResults struct {
	Machine predict.Parameters `json:"machine"`
	Rounds  int                `json:"rounds"`
	Rows    []simRow           `json:"rows"`
}

// simCase is a job with its names.
type simCase struct {
	row  simRow
	kill kill.Order
	job  predict.Job
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
	cases, err := c.cases(machine)
	if err != nil {
		return usage(err)
	}
	if c.Plot != "" {
		if err := figure.Check(c.Plot); err != nil {
			return usage(err)
		}
		if n := c.drawn(); n > mostLines {
			return usagef("--plot: %d lines in one picture, at most %d can be told apart: ask for fewer designs, trees or orders", n, mostLines)
		}
	}
	if err := checkFiles(c.JSON, c.Plot); err != nil {
		return err
	}
	file := report.Begin("sim")
	results := simResults{Machine: machine, Rounds: c.Rounds}
	if results.Rows, err = c.run(cases, machine.Name, to); err != nil {
		return err
	}
	if c.Plot != "" {
		if err := figure.Save(c.Plot, c.charts(results.Rows)...); err != nil {
			return err
		}
	}
	return to.store(file, c.JSON, results)
}

// run does the cases and prints a line for each as soon as it is there.
func (c *simCmd) run(cases []simCase, name string, to *call) ([]simRow, error) {
	out := to.words(c.JSON).out
	fmt.Fprintf(out, "# %s: virtual time of one operation, of %d in a row\n", name, c.Rounds)
	fmt.Fprintf(out, "%-10s%9s%9s%8s%9s%11s%12s%8s%7s%14s\n", "# Op", "Bytes", "Ranks", "Failed", "Kill", "Design", "Tree", "Degree", "Depth", "Time (us)")
	bar := progressbar.Start(to.err, "sim", len(cases))
	defer bar.Stop()
	lines := bar.Lines(out, func([]byte) bool { return true })
	run := predict.Run
	if c.Full {
		run = predict.Full
	}
	var rows []simRow
	for _, k := range cases {
		r, err := run(k.job)
		if err != nil {
			return nil, err
		}
		row := k.row
		row.Micros, row.Degree, row.Depth, row.Messages = float64(r.PerOp())/float64(sim.Microsecond), r.Degree, r.Depth, r.Messages
		rows = append(rows, row)
		_, err = fmt.Fprintf(lines, "%-10s%9d%9d%8d%9s%11s%12s%8d%7d%14.3f\n", row.Op, row.Bytes, row.Ranks, row.Failed, row.Kill,
			row.Design, row.Tree, row.Degree, row.Depth, row.Micros)
		if err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// cases are all combinations, the design innermost.
func (c *simCmd) cases(machine predict.Parameters) ([]simCase, error) {
	if c.Rounds < 1 {
		return nil, fmt.Errorf("--rounds=%d: want 1 or more", c.Rounds)
	}
	base := []simCase{{job: predict.Job{Rounds: c.Rounds, Costs: machine.Costs()}}}
	steps := []func([]simCase) ([]simCase, error){
		each(c.Op, func(k *simCase, op string) (err error) {
			k.row.Op = op
			k.job.Op, err = predict.ParseOp(op)
			return err
		}),
		each(c.N, func(k *simCase, n int) error {
			k.row.Ranks, k.job.Ranks = n, n
			if n < 1 || n > 1<<20 {
				return fmt.Errorf("-n %d: want 1 to %d", n, 1<<20)
			}
			k.job.Machine = machine.Config(n)
			return nil
		}),
		each(c.Bytes, func(k *simCase, bytes int) error {
			k.row.Bytes, k.job.Bytes = bytes, bytes
			return nil
		}),
		each(c.Kill, func(k *simCase, order kill.Order) error {
			k.kill, k.row.Kill = order, order.String()
			return nil
		}),
		each(c.Failures, func(k *simCase, failures int) (err error) {
			k.row.Failed = failures
			if err = kill.Check("--failures", k.row.Ranks, failures); err == nil {
				k.job.Dead = k.kill.Victims(k.row.Ranks, failures)
			}
			return err
		}),
		each(c.Tree, func(k *simCase, text string) (err error) {
			k.row.Tree = text
			k.job.Shape, err = tree.ParseShape(text)
			return err
		}),
		each(c.Design, func(k *simCase, text string) (err error) {
			k.row.Design = text
			if k.job.Design, err = tree.ParseDesign(text); err == nil && k.job.Design == tree.Unaware {
				k.job = k.job.Baseline()
			}
			return err
		}),
	}
	var err error
	for _, step := range steps {
		if base, err = step(base); err != nil {
			return nil, err
		}
	}
	return plain(base), nil
}

// mostLines is what package figure tells apart in one picture.
const mostLines = 7

// nobody stands for the order where nobody is killed.
const nobody = "-"

// plain leaves out what is asked for twice: an order of kills where nobody is killed, lengths of a barrier.
func plain(cases []simCase) []simCase {
	var out []simCase
	seen := map[simRow]bool{}
	for _, k := range cases {
		if k.row.Failed == 0 {
			k.row.Kill = nobody
		}
		if k.job.Op == predict.Barrier {
			k.row.Bytes = 0
		}
		if !seen[k.row] {
			seen[k.row] = true
			out = append(out, k)
		}
	}
	return out
}

// each makes of every case one for each value.
func each[T any](values []T, set func(*simCase, T) error) func([]simCase) ([]simCase, error) {
	return func(cases []simCase) ([]simCase, error) {
		var out []simCase
		for _, k := range cases {
			for _, v := range values {
				next := k
				if err := set(&next, v); err != nil {
					return nil, err
				}
				out = append(out, next)
			}
		}
		return out, nil
	}
}

// charts has one for each operation and length.
func (c *simCmd) charts(rows []simRow) []figure.Chart {
	x := figure.Axis{Title: "process failures", Unit: figure.Linear}
	if len(c.N) > 1 {
		x = figure.Axis{Title: "ranks", Unit: figure.Bytes}
	}
	var charts []figure.Chart
	for _, row := range rows {
		title := fmt.Sprintf("%s, %d bytes, on %s", row.Op, row.Bytes, c.Machine)
		i := slices.IndexFunc(charts, func(f figure.Chart) bool { return f.Title == title })
		if i < 0 {
			i = len(charts)
			charts = append(charts, figure.Chart{Title: title, X: x, Y: figure.Axis{Title: "time (µs)", Unit: x.Unit}})
			if x.Unit == figure.Bytes {
				charts[i].Y.Unit = figure.Decimal
			}
		}
		at := float64(row.Failed)
		if len(c.N) > 1 {
			at = float64(row.Ranks)
		}
		for _, name := range c.lines(row) {
			charts[i].Series = addPoint(charts[i].Series, name, figure.Point{X: at, Y: row.Micros})
		}
	}
	return charts
}

// drawn is how many lines a chart has.
func (c *simCmd) drawn() int {
	n := len(c.Design) * len(c.Tree) * len(c.Kill)
	if len(c.N) > 1 {
		n *= len(c.Failures)
	}
	return n
}

// lines names the lines of a chart that a row is on: without failures, those of all orders.
func (c *simCmd) lines(row simRow) []string {
	if row.Kill != nobody {
		return []string{c.line(row)}
	}
	var names []string
	for _, order := range c.Kill {
		row.Kill = order.String()
		names = append(names, c.line(row))
	}
	return names
}

// line names the line of a chart that a row is on.
func (c *simCmd) line(row simRow) string {
	parts := []string{row.Design}
	if len(c.Tree) > 1 {
		parts = append(parts, row.Tree)
	}
	if len(c.Kill) > 1 {
		parts = append(parts, row.Kill)
	}
	if len(c.N) > 1 && len(c.Failures) > 1 {
		parts = append(parts, fmt.Sprint(row.Failed, " failed"))
	}
	return strings.Join(parts, ", ")
}

// addPoint puts a point on the line of that name.
func addPoint(all []figure.Series, name string, p figure.Point) []figure.Series {
	i := slices.IndexFunc(all, func(s figure.Series) bool { return s.Name == name })
	if i < 0 {
		i = len(all)
		all = append(all, figure.Series{Name: name})
	}
	all[i].Points = append(all[i].Points, p)
	return all
}
