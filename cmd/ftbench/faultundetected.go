package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/banyan-hpc/banyan/bench/budget"
	"github.com/banyan-hpc/banyan/bench/fault"
	"github.com/banyan-hpc/banyan/bench/kill"
	"github.com/banyan-hpc/banyan/bench/predict"
	"github.com/banyan-hpc/banyan/bench/report"
	"github.com/banyan-hpc/banyan/bench/table"
	"github.com/banyan-hpc/banyan/coll/tree"
	"github.com/banyan-hpc/banyan/fabric/sim"
)

// undetectedRow is a prediction in the JSON file.
type undetectedRow struct {
	Failed int        `json:"failed"`
	Kill   kill.Order `json:"kill"`
	fault.Line
	Living   int `json:"living"`
	Reached  int `json:"reached"` // living ranks that complete without a detection
	Messages int `json:"messages"`
	// Micros is until the last of them has, AllMicros until all living have; 0: never.
	Micros    float64 `json:"us"`
	AllMicros float64 `json:"all_us"`
}

// undetectedResults are the results in the JSON file.
type undetectedResults struct {
	Machine   predict.Parameters `json:"machine"`
	Ranks     int                `json:"ranks"`
	Detection time.Duration      `json:"detection_ns"`
	Rows      []undetectedRow    `json:"rows"`
	Cut       *budget.Cut        `json:"cut,omitempty"` // of --max-time
}

// predictUndetected predicts operations that start with undetected failures.
func (c *collectiveOptions) predictUndetected(jobs []fault.Collective, to *call) error {
	machine, err := predict.Load(c.Machine)
	if err != nil {
		return usage(err)
	}
	files := outputs{c.Plot, c.JSON, string(c.Fabric)}
	if err := files.check(); err != nil {
		return err
	}
	file := report.Begin("fault-" + string(c.Op) + "-undetected")
	out := to.words(c.JSON).out
	t := table.Table{
		W: out, Keys: 4,
		Title: fmt.Sprintf("# %s, %s among %d ranks, some dead and no rank knows: living ranks that complete before the detection, "+
			"their time, messages; and until all have, with a detection after %v, virtual µs", machine.Name, c.Op, c.N, c.Detection),
		Columns: []table.Column{{Name: "# Failed", Left: true}, {Name: "Order", Width: 7, Left: true},
			{Name: "Design", Width: 9, Left: true}, {Name: "Tree", Width: 8, Left: true}, {Name: "Living", Width: 8},
			{Name: "Reached", Width: 8}, {Name: "Messages", Width: 9}, {Name: "Time", Width: 9, Format: "%.1f"}, {Name: "All", Width: 11}},
	}
	results := undetectedResults{Machine: machine, Ranks: c.N, Detection: c.Detection}
	err = t.Begin()
	for i, o := range jobs {
		if o.Budget.Over() {
			results.Cut = o.Budget.Cut(i, len(jobs), "predictions")
			break
		}
		if err == nil {
			err = c.undetectedJob(o, &results, &t)
		}
	}
	if err = errors.Join(err, t.End(), printCut(out, results.Cut), results.Cut.Nothing()); err != nil {
		return err
	}
	return files.keep(file, results, c.undetectedChart(results.Rows), to)
}

// undetectedJob predicts all designs of a job.
func (c *collectiveOptions) undetectedJob(o fault.Collective, results *undetectedResults, t *table.Table) error {
	op, err := predict.ParseOp(string(o.Op))
	if err != nil {
		return err
	}
	for _, l := range o.Lines() {
		design, err := tree.ParseDesign(l.Design)
		if err != nil {
			return usage(err)
		}
		shape, err := tree.ParseShape(l.Tree)
		if err != nil {
			return usage(err)
		}
		j := predict.Job{
			Machine: results.Machine.Config(o.Ranks), Ranks: o.Ranks, Design: design, Shape: shape, Op: op, Bytes: o.Size,
			Dead: o.Kill.Victims(o.Ranks, o.Failures),
		}
		u, err := predict.Unseen(j, sim.Picos(c.Detection.Nanoseconds())*sim.Nanosecond)
		if err != nil {
			return usage(err)
		}
		micros := func(p sim.Picos) float64 { return float64(p) / float64(sim.Microsecond) }
		row := undetectedRow{o.Failures, o.Kill, l, u.Living, u.Reached, u.Messages, micros(u.Time), micros(u.Complete)}
		results.Rows = append(results.Rows, row)
		all := "never"
		if u.Complete > 0 {
			all = fmt.Sprintf("%.1f", row.AllMicros)
		}
		err = t.Row(row.Failed, row.Kill, row.Design, row.Tree, row.Living, row.Reached, row.Messages, row.Micros, all)
		if err != nil {
			return err
		}
	}
	return nil
}
