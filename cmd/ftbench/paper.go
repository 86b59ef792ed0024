package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/banyan-hpc/banyan/bench/figure"
	"github.com/banyan-hpc/banyan/bench/paper"
	"github.com/banyan-hpc/banyan/bench/progressbar"
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/internal/wholefile"
)

type paperCmd struct {
	Out      string `default:"results/paper" placeholder:"DIR" help:"Where the report and its figures go. Default: ${default}."`
	Measured string `placeholder:"FILE" help:"Measurements of this machine to stand beside the paper's values, as JSON."`
	Fit      bool   `help:"Find the fitted parameters of the profile paper-2011 from table 1 again, print them, and do nothing else."`
}

// Help has the examples.
func (paperCmd) Help() string {
	return `The experiments of Hursey and Graham, "Analyzing Fault Aware Collective Performance in
a Process Fault Tolerant MPI": figures 1 to 10, tables 1 and 2, each value beside the
prediction for that machine. Writes report.html, report.md and the figures as SVG.
docs/paper.md says how to read them.

Examples:
  ftbench paper
  ftbench paper --out /tmp/paper --measured results/measured.json
  ftbench paper --fit`
}

// Run writes the report.
func (c *paperCmd) Run(to *call) error {
	if c.Fit {
		p, err := paper.Fit(to.out)
		if err == nil {
			_, err = fmt.Fprintf(to.out, "engine %d ns, latency %d ns; built in: engine %d ns, latency %d ns\n", p.Engine/sim.Nanosecond,
				p.Latency/sim.Nanosecond, sim.Fitted.Engine/sim.Nanosecond, sim.Fitted.Latency/sim.Nanosecond)
		}
		return err
	}
	var measured paper.Measured
	if c.Measured != "" {
		b, err := os.ReadFile(c.Measured)
		if err == nil {
			err = json.Unmarshal(b, &measured)
		}
		if err != nil {
			return usagef("--measured=%s: %w", c.Measured, err)
		}
	}
	html, md := filepath.Join(c.Out, "report.html"), filepath.Join(c.Out, "report.md")
	if err := checkFiles(html, md); err != nil {
		return err
	}
	bar := progressbar.Start(to.err, "paper", paper.Steps())
	defer bar.Stop()
	r, err := paper.Build(measured, func() { bar.Step(1) })
	if err != nil {
		return err
	}
	for _, s := range r.Sections {
		for _, f := range s.Figures {
			if err := figure.Save(filepath.Join(c.Out, f.File), chartOf(f)); err != nil {
				return err
			}
		}
	}
	if err := wholefile.Write(html, []byte(r.HTML()), 0); err != nil {
		return err
	}
	if err := wholefile.Write(md, []byte(r.Markdown()), 0); err != nil {
		return err
	}
	bar.Stop()
	_, err = fmt.Fprint(to.out, named("written:", html, md))
	return err
}

// chartOf is a figure of the paper as a picture.
func chartOf(f paper.Figure) figure.Chart {
	chart := figure.Chart{Title: f.Title, X: figure.Axis{Title: f.X, Unit: figure.Linear}, Y: figure.Axis{Title: f.Y, Unit: figure.Linear}}
	if f.Doubling {
		chart.X.Unit = figure.Bytes
	}
	for _, line := range f.Lines {
		s := figure.Series{Name: line.Name}
		for _, p := range line.Points {
			s.Points = append(s.Points, figure.Point{X: p[0], Y: p[1]})
		}
		chart.Series = append(chart.Series, s)
	}
	return chart
}
