package main

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/bench/collective"
	"github.com/banyan-hpc/banyan/bench/kill"
	"github.com/banyan-hpc/banyan/bench/progressbar"
	"github.com/banyan-hpc/banyan/bench/report"
	"github.com/banyan-hpc/banyan/internal/launch/join"
)

// unknownJobs makes the options of all jobs in which ranks die that nobody knows of: until each line has as many deaths as sets are asked for.
func (c *collectiveOptions) unknownJobs(o collective.Options) []collective.Options {
	o.Op, o.Ranks, o.Sets, o.Calls, o.Designs, o.Trees = c.Op, c.N, 30, 1, c.Design, c.Tree
	if c.Sets != nil {
		o.Sets = *c.Sets
	}
	o.Failures = max(1, min(c.N*3/4, c.N-2))
	if len(c.Failures) > 0 {
		o.Failures = slices.Max(c.Failures)
	}
	lines := 0
	for _, l := range o.Lines() {
		if !l.Baseline() {
			lines++
		}
	}
	var out []collective.Options
	for _, o.Kill = range c.Kill {
		for had := 0; had == 0 || had < o.Sets*lines; had += max(1, o.Failures) {
			out = append(out, o)
		}
	}
	return out
}

// runUnknown has ranks die while operations run, or is a rank of a job that it has started.
func (c *collectiveOptions) runUnknown(jobs []collective.Options, to *call) error {
	if len(c.Plot) > 0 {
		return usagef("fault %s: --unknown gives no curve: it does not go with --plot", c.Op)
	}
	for _, o := range jobs {
		if err := o.CheckUnknown(); err != nil {
			return usage(err)
		}
	}
	if join.Started() {
		return c.rank(jobs, func(w *banyan.World, number int) error {
			return collective.RankUnknown(w, jobs[number], number, to.out)
		})
	}
	if err := checkFiles(c.JSON); err != nil {
		return err
	}
	file := report.Begin("fault-" + string(c.Op) + "-unknown")
	results, err := c.measureUnknown(jobs, to)
	if err != nil {
		return err
	}
	return outputs{json: c.JSON}.keep(file, results, c.chart(&collectiveResults{}), to)
}

// unknownJob are the deaths of one job in the JSON file.
type unknownJob struct {
	Options collective.Options `json:"options"`
	Deaths  []collective.Death `json:"deaths"`
}

// measureUnknown runs the jobs and prints the table.
func (c *collectiveOptions) measureUnknown(jobs []collective.Options, to *call) ([]unknownJob, error) {
	o := jobs[0]
	bar := progressbar.Start(to.err, "fault "+string(c.Op), o.Failures*len(jobs))
	defer bar.Stop()
	ctx, stop, start, err := c.starter(bar, to)
	if err != nil {
		return nil, err
	}
	defer stop()
	out := bar.Over(to.words(c.JSON).out)
	var results []unknownJob
	for i, o := range jobs {
		deaths, err := collective.MeasureUnknown(ctx, o, i, start(i, o), out, func() { bar.Step(1) })
		if err != nil {
			return nil, orInterrupt(ctx, err)
		}
		results = append(results, unknownJob{o, deaths})
	}
	return results, unknownTable(out, results, c.Fabric == simulator)
}

// unknownTable prints the percentiles over the deaths of each line.
func unknownTable(out io.Writer, jobs []unknownJob, virtual bool) error {
	type key struct {
		kill kill.Order
		line collective.Line
	}
	told, repaired := make(map[key][]time.Duration), make(map[key][]time.Duration)
	var keys []key
	for _, j := range jobs {
		for _, d := range j.Deaths {
			k := key{j.Options.Kill, d.Line}
			if told[k] == nil {
				keys = append(keys, k)
			}
			told[k], repaired[k] = append(told[k], d.Told), append(repaired[k], d.Repaired)
		}
	}
	o, us := jobs[0].Options, "µs"
	if virtual {
		us = "virtual µs"
	}
	if _, err := fmt.Fprintf(out, "# Banyan %s, %d ranks, of which %d die one after another during operations: %s from the kill until all others have the error, and until all have validated\n%-7s  %-9s  %-10s%8s%10s%10s%10s%14s%10s%10s\n",
		o.Op, o.Ranks, o.Failures, us, "# Order", "Design", "Tree", "Deaths", "Error P50", "P90", "Max", "Validated P50", "P90", "Max"); err != nil {
		return err
	}
	for _, k := range keys {
		t, r := percentiles(told[k]), percentiles(repaired[k])
		if _, err := fmt.Fprintf(out, "%-7s  %-9s  %-10s%8d%10.1f%10.1f%10.1f%14.1f%10.1f%10.1f\n", k.kill, k.line.Design, k.line.Tree,
			len(told[k]), t[0], t[1], t[2], r[0], r[1], r[2]); err != nil {
			return err
		}
	}
	return nil
}

// percentiles are the median, the 90th and the longest, in µs.
func percentiles(d []time.Duration) (out [3]float64) {
	s := slices.Sorted(slices.Values(d))
	for i, at := range []int{(len(s) - 1) / 2, (len(s)*9+9)/10 - 1, len(s) - 1} {
		out[i] = float64(s[at]) / 1e3
	}
	return out
}
