package sweep

import (
	"fmt"
	"slices"
	"strings"

	"github.com/banyan-hpc/banyan/bench/figure"
	"github.com/banyan-hpc/banyan/bench/kill"
	"github.com/banyan-hpc/banyan/bench/predict"
	"github.com/banyan-hpc/banyan/coll/tree"
	"github.com/banyan-hpc/banyan/fabric/sim"
)

// Grid is a set of values of each parameter.
type Grid struct {
	Machine         predict.Parameters
	Ops             []string
	Designs, Trees  []string
	Ranks, Failures []int
	Orders          []kill.Order
	Bytes           []int
	Rounds          int
	// Full runs the library's own engine in the full simulator.
	Full bool
}

// Row is the result of a case.
type Row struct {
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

// Case is one combination of a [Grid].
type Case struct {
	row  Row
	kill kill.Order
	job  predict.Job
}

// Living is the number of ranks that take part.
func (k Case) Living() int { return k.row.Ranks - k.row.Failed }

// Predict runs a case.
func (g *Grid) Predict(k Case) (Row, error) {
	run := predict.Run
	if g.Full {
		run = predict.Full
	}
	r, err := run(k.job)
	if err != nil {
		return Row{}, err
	}
	row := k.row
	row.Micros, row.Degree, row.Depth, row.Messages = float64(r.PerOp())/float64(sim.Microsecond), r.Degree, r.Depth,
		r.Messages
	return row, nil
}

// Cases are all combinations, the design innermost.
func (g *Grid) Cases() ([]Case, error) {
	if g.Rounds < 1 {
		return nil, fmt.Errorf("--rounds=%d: want 1 or more", g.Rounds)
	}
	base := []Case{{job: predict.Job{Rounds: g.Rounds, Costs: g.Machine.Costs()}}}
	steps := []func([]Case) ([]Case, error){
		each(g.Ops, func(k *Case, op string) (err error) {
			k.row.Op = op
			k.job.Op, err = predict.ParseOp(op)
			return err
		}),
		each(g.Ranks, func(k *Case, n int) error {
			k.row.Ranks, k.job.Ranks = n, n
			if n < 1 || n > 1<<20 {
				return fmt.Errorf("-n %d: want 1 to %d", n, 1<<20)
			}
			k.job.Machine = g.Machine.Config(n)
			return nil
		}),
		each(g.Bytes, func(k *Case, bytes int) error {
			k.row.Bytes, k.job.Bytes = bytes, bytes
			return nil
		}),
		each(g.Orders, func(k *Case, order kill.Order) error {
			k.kill, k.row.Kill = order, order.String()
			return nil
		}),
		each(g.Failures, func(k *Case, failures int) (err error) {
			k.row.Failed = failures
			if err = kill.Check("--failures", k.row.Ranks, failures); err == nil {
				k.job.Dead = k.kill.Victims(k.row.Ranks, failures)
			}
			return err
		}),
		each(g.Trees, func(k *Case, text string) (err error) {
			k.row.Tree = text
			k.job.Shape, err = tree.ParseShape(text)
			return err
		}),
		each(g.Designs, func(k *Case, text string) (err error) {
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
	return distinct(base), nil
}

// noOrder is the order of kills without failures.
const noOrder = "-"

// distinct removes repetitions: orders of kills without failures, lengths of a barrier.
func distinct(cases []Case) []Case {
	var out []Case
	seen := map[Row]bool{}
	for _, k := range cases {
		if k.row.Failed == 0 {
			k.row.Kill = noOrder
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
func each[T any](values []T, set func(*Case, T) error) func([]Case) ([]Case, error) {
	return func(cases []Case) ([]Case, error) {
		var out []Case
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

// Charts has one for each operation and length; machine is the name in their titles.
func (g *Grid) Charts(machine string, rows []Row) []figure.Chart {
	x := figure.Axis{Title: "process failures", Unit: figure.Count}
	y := figure.Axis{Title: "time (µs)", Unit: figure.Linear}
	if len(g.Ranks) > 1 {
		x, y.Unit = figure.Axis{Title: "ranks", Unit: figure.Doubling}, figure.Decimal
	}
	var charts []figure.Chart
	for _, row := range rows {
		title := fmt.Sprintf("%s, %d bytes", row.Op, row.Bytes)
		i := slices.IndexFunc(charts, func(f figure.Chart) bool { return f.Title == title })
		if i < 0 {
			i = len(charts)
			charts = append(charts, figure.Chart{Title: title, Fabric: "simulated " + machine, X: x, Y: y})
		}
		at := float64(row.Failed)
		if len(g.Ranks) > 1 {
			at = float64(row.Ranks)
		}
		for _, name := range g.lines(row) {
			charts[i].Series = addPoint(charts[i].Series, name, figure.Point{X: at, Y: row.Micros})
		}
	}
	return charts
}

// Lines is the number of lines of a chart.
func (g *Grid) Lines() int {
	n := len(g.Designs) * len(g.Trees) * len(g.Orders)
	if len(g.Ranks) > 1 {
		n *= len(g.Failures)
	}
	return n
}

// lines names the lines of a chart that a row is on: without failures, those of all orders.
func (g *Grid) lines(row Row) []string {
	if row.Kill != noOrder {
		return []string{g.line(row)}
	}
	var names []string
	for _, order := range g.Orders {
		row.Kill = order.String()
		names = append(names, g.line(row))
	}
	return names
}

// line names the line of a chart that a row is on.
func (g *Grid) line(row Row) string {
	parts := []string{row.Design}
	if len(g.Trees) > 1 {
		parts = append(parts, row.Tree)
	}
	if len(g.Orders) > 1 {
		parts = append(parts, row.Kill)
	}
	if len(g.Ranks) > 1 && len(g.Failures) > 1 {
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
