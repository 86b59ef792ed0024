package main

import (
	"fmt"

	"github.com/banyan-hpc/banyan/bench/figure"
	"github.com/banyan-hpc/banyan/bench/stats"
)

// chart draws the medians against the number of failures, a line for each design.
func (c *collectiveOptions) chart(r *collectiveResults) []figure.Chart {
	var lines seriesByName
	for _, job := range r.Jobs {
		for _, l := range job.Lines {
			name := l.Design
			if len(c.Tree) > 1 {
				name += ", " + l.Tree
			}
			if len(c.Kill) > 1 {
				name += ", " + job.Options.Kill.String()
			}
			lines.put(name, figure.Estimate(float64(job.Options.Failures), stats.MedianInterval(l.Sets),
				func(ns float64) float64 { return ns / 1e3 }))
		}
	}
	return []figure.Chart{{
		Title: fmt.Sprintf("Banyan %s, %d ranks, median and 95 %% interval", c.Op, c.N), Series: lines.list,
		X: figure.Axis{Title: "failures", Unit: figure.Count}, Y: figure.Axis{Title: "time (µs)", Unit: figure.Linear},
	}}
}

// undetectedChart draws the time until all living ranks have completed, and the share that has without a detection.
func (c *collectiveOptions) undetectedChart(rows []undetectedRow) []figure.Chart {
	var times, shares seriesByName
	for _, r := range rows {
		name := r.Design
		if len(c.Tree) > 1 {
			name += ", " + r.Tree
		}
		if len(c.Kill) > 1 {
			name += ", " + r.Kill.String()
		}
		if r.AllMicros > 0 {
			times.add(name, float64(r.Failed), r.AllMicros)
		}
		shares.add(name, float64(r.Failed), 100*float64(r.Reached)/float64(r.Living))
	}
	x := figure.Axis{Title: "failures that no rank knows", Unit: figure.Decimal}
	return []figure.Chart{
		{Title: fmt.Sprintf("%s, %d ranks: until all living have completed", c.Op, c.N), Series: times.list, X: x,
			Y: figure.Axis{Title: "time (µs)", Unit: figure.Decimal}},
		{Title: fmt.Sprintf("%s, %d ranks: complete without detection", c.Op, c.N), Series: shares.list, X: x,
			Y: figure.Axis{Title: "living ranks (%)", Unit: figure.Linear}},
	}
}
