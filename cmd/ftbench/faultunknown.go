package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/banyan-hpc/banyan/bench/budget"
	"github.com/banyan-hpc/banyan/bench/fault"
	"github.com/banyan-hpc/banyan/bench/figure"
	"github.com/banyan-hpc/banyan/bench/kill"
	"github.com/banyan-hpc/banyan/bench/progressbar"
	"github.com/banyan-hpc/banyan/bench/stats"
	"github.com/banyan-hpc/banyan/bench/table"
)

// unknownJob has the deaths of one job in the JSON file.
type unknownJob struct {
	Options fault.Collective `json:"options"`
	Deaths  []fault.Death    `json:"deaths"`
}

// measureUnknown runs jobs whose ranks die during operations, and prints the table.
func (c *collectiveOptions) measureUnknown(jobs []fault.Collective, to *call) (any, []figure.Chart, error) {
	announce(to.err, "fault "+string(c.Op), c.time(jobs), c.MaxTime)
	bar := progressbar.Start(to.err, "fault "+string(c.Op), jobs[0].Failures*len(jobs))
	defer bar.Stop()
	ctx, stop, start, err := c.starter(bar, to, jobs[0].Budget)
	if err != nil {
		return nil, nil, err
	}
	defer stop()
	out := bar.Over(to.words(c.JSON).out)
	ctx, free := jobs[0].Budget.Context(ctx)
	defer free()
	var results unknownResults
	for i, o := range jobs {
		var deaths []fault.Death
		over := o.Budget.Over() // the simulator does not see it during a job
		if !over {
			deaths, err = o.MeasureUnknown(ctx, i, start(i, o), out, func() { bar.Step(1) })
		}
		if over || err != nil && budget.Ended(ctx) {
			results.Cut = o.Budget.Cut(i, len(jobs), "jobs")
			break
		}
		if err != nil {
			return nil, nil, orInterrupt(ctx, err)
		}
		results.Jobs = append(results.Jobs, unknownJob{o, deaths})
	}
	if err := results.Cut.Nothing(); err != nil {
		return nil, nil, err
	}
	err = unknownTable(out, results.Jobs, c.Fabric == simulator)
	return results, nil, errors.Join(err, printCut(out, results.Cut))
}

// unknownResults are the results in the JSON file.
type unknownResults struct {
	Jobs []unknownJob `json:"jobs"`
	Cut  *budget.Cut  `json:"cut,omitempty"` // of --max-time
}

// unknownTable prints percentiles over the deaths of each line, in the order of the first deaths.
func unknownTable(out io.Writer, jobs []unknownJob, virtual bool) error {
	type key struct {
		kill kill.Order
		line fault.Line
	}
	deaths := make(map[key][]fault.Death)
	var keys []key
	for _, j := range jobs {
		for _, d := range j.Deaths {
			k := key{j.Options.Kill, d.Line}
			if deaths[k] == nil {
				keys = append(keys, k)
			}
			deaths[k] = append(deaths[k], d)
		}
	}
	o, us := jobs[0].Options, "µs"
	if virtual {
		us = "virtual µs"
	}
	t := table.Table{
		W: out, Keys: 3, Title: fmt.Sprintf("# Banyan %s, %d ranks, of which %d die one after another during operations: "+
			"%s from the kill until all others have the error, and until all have validated", o.Op, o.Ranks, o.Failures, us),
		Columns: []table.Column{{Name: "# Order", Left: true}, {Name: "Design", Width: 9, Left: true},
			{Name: "Tree", Width: 8, Left: true}, {Name: "Deaths"}},
	}
	for _, until := range []string{"Error", "Validated"} {
		t.Columns = append(t.Columns, table.Column{Name: until + " P50", Width: 9, Format: "%.1f"},
			table.Column{Name: "P90", Width: 9, Format: "%.1f", Joined: true},
			table.Column{Name: "Max", Width: 9, Format: "%.1f", Joined: true})
	}
	var rows [][]any
	for _, k := range keys {
		var told, repaired []time.Duration
		for _, d := range deaths[k] {
			told, repaired = append(told, d.Told), append(repaired, d.Repaired)
		}
		at := func(times []time.Duration, p float64) float64 { return float64(stats.Percentile(times, p)) / 1e3 }
		rows = append(rows, []any{k.kill, k.line.Design, k.line.Tree, len(told), at(told, 50), at(told, 90), at(told, 100),
			at(repaired, 50), at(repaired, 90), at(repaired, 100)})
	}
	return t.Write(rows)
}
