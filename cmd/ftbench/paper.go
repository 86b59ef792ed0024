package main

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/banyan-hpc/banyan/bench/budget"
	"github.com/banyan-hpc/banyan/bench/fault"
	"github.com/banyan-hpc/banyan/bench/figure"
	"github.com/banyan-hpc/banyan/bench/paper"
	"github.com/banyan-hpc/banyan/bench/progressbar"
	"github.com/banyan-hpc/banyan/bench/report"
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/internal/launch/join"
	"github.com/banyan-hpc/banyan/internal/wholefile"
)

type paperCmd struct {
	Out      string `default:"results/paper" placeholder:"DIR" help:"Where the report and its figures go. Default: ${default}."`
	Measure  bool   `default:"true" negatable:"" help:"Measure with real ranks; --no-measure: only the measurements of --measured are shown beside the predictions."`
	Measured string `placeholder:"FILE" help:"Go on from the measurements in this file, and add to it. Default: measured.json in --out, started anew."`
	Ranks    []int  `placeholder:"LIST" help:"Numbers of real ranks; the largest has the sweeps over failures. Default: 16, 32, 64; with --quick 16."`
	Sets     int    `placeholder:"N" help:"Sets of each design in each job, in turn. Default: 12; with --quick 6; the paper's are 30."`
	Ops      int    `placeholder:"N" help:"Operations of a set. Default: 50; with --quick 10; the paper's are 300."`
	Rounds   int    `placeholder:"N" help:"Operations in a row of a prediction. Default: 300, as in the paper; with --quick 10."`
	Quick    bool   `help:"A first look, in less than a minute: fewer ranks, sets and operations, wide intervals, and predictions up to 10 000 ranks."`
	Fit      bool   `help:"Find the fitted parameters of the profile paper-2011 from table 1 again, print them, and do nothing else."`
	JSON     string `placeholder:"FILE" help:"Store the tables, the measurements and the environment; -: print them, and the rest on standard error."`
	maxTimeFlag
	exitsFlag
}

func (paperCmd) Help() string {
	return `The experiments of Hursey and Graham, "Analyzing Fault Aware Collective Performance in
a Process Fault Tolerant MPI": figures 1 to 10, tables 1 and 2, and what the paper does not
have (unknown failures, allreduce, large broadcasts, other trees, up to a million ranks).
Each value stands beside the prediction for the paper's machine, and beside what real
ranks take here: over shared memory, ended with SIGKILL, all designs in turn within a job,
with 95 % intervals. Writes report.html, report.md, the figures as SVG, and what was
measured as measured.json. Measuring takes some minutes on an idle machine, the
predictions about one. SIGINT ends it and leaves what was measured; --measured goes on
from there, on the same machine. docs/benchmarks.md says how to read the report.

Examples:
  ftbench paper
  ftbench paper --quick --out /tmp/paper
  ftbench paper --ranks 16,32,64,128 --sets 30 --ops 300
  ftbench paper --measured results/paper/measured.json
  ftbench paper --no-measure --measured results/paper/measured.json
  ftbench paper --fit`
}

// size is how much is measured.
func (c *paperCmd) size() paper.Size {
	s := paper.Size{Ranks: []int{16, 32, 64}, Sets: 12, Calls: 50}
	if c.Quick {
		s = paper.Size{Ranks: []int{16}, Sets: 6, Calls: 10}
	}
	if len(c.Ranks) > 0 {
		s.Ranks = c.Ranks
	}
	if c.Sets != 0 {
		s.Sets = c.Sets
	}
	if c.Ops != 0 {
		s.Calls = c.Ops
	}
	return s
}

// predictions are how much is predicted.
func (c *paperCmd) predictions() paper.Predictions {
	p := paper.Predictions{Rounds: paper.Rounds, Most: 1e6}
	if c.Quick {
		p = paper.Predictions{Rounds: 10, Most: 1e4}
	}
	if c.Rounds != 0 {
		p.Rounds = c.Rounds
	}
	return p
}

// paperResults are the results in the JSON file.
type paperResults struct {
	Report   *paper.Report   `json:"report"`
	Measured *paper.Measured `json:"measured"`
	Files    []string        `json:"files"`
	Cut      *budget.Cut     `json:"cut,omitempty"` // of --max-time: later measurements are missing
}

// fitResults are those of --fit.
type fitResults struct {
	Engine  int64 `json:"engine_ns"`
	Latency int64 `json:"latency_ns"`
}

// Run measures and writes the report.
func (c *paperCmd) Run(to *call) error {
	if err := cmp.Or(c.checkTime(), checkFiles(c.JSON)); err != nil {
		return err
	}
	if c.Fit {
		return c.fit(to)
	}
	if err := c.size().Check(); err != nil {
		return usagef("paper: %w", err)
	}
	if c.Rounds < 0 {
		return usagef("paper: --rounds %d: want 1 or more", c.Rounds)
	}
	if join.Started() {
		return usagef("paper: it starts its ranks itself: run it alone, not in another launcher's job")
	}
	html, md := filepath.Join(c.Out, "report.html"), filepath.Join(c.Out, "report.md")
	if err := checkFiles(html, md); err != nil {
		return err
	}
	file := report.Begin("paper-report")
	store, err := c.open()
	if err != nil {
		return err
	}
	var cut *budget.Cut
	if c.Measure {
		if cut, err = c.measure(store, to.words(c.JSON)); err != nil {
			return err
		}
	}
	r, err := c.predict(&store.Measured, to)
	if err != nil {
		return err
	}
	return c.write(paperResults{Report: r, Measured: &store.Measured, Cut: cut}, store, file, to)
}

// write writes the report and prints the names of its files.
func (c *paperCmd) write(results paperResults, store *paper.Store, file *report.File, to *call) error {
	r := results.Report
	html, md := filepath.Join(c.Out, "report.html"), filepath.Join(c.Out, "report.md")
	for _, s := range r.Sections {
		for _, f := range s.Figures {
			if err := figure.Save(filepath.Join(c.Out, f.File), figure.WithSource(store.Source, f.Charts...)...); err != nil {
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
	files := []string{html, md}
	if store.Stored {
		files = append(files, store.Path)
	}
	results.Files = files
	if err := to.store(file, c.JSON, results); err != nil {
		return err
	}
	_, err := fmt.Fprint(to.words(c.JSON).out, named("written:", append(files, c.JSON)...))
	return err
}

// open reads the measurements that are to be continued, or begins new ones.
func (c *paperCmd) open() (*paper.Store, error) {
	if c.Measured == "" {
		s, err := paper.NewStore(filepath.Join(c.Out, "measured.json"))
		return s, cmp.Or(err, checkFiles(filepath.Join(c.Out, "measured.json")))
	}
	s, err := paper.OpenStore(c.Measured, c.Measure)
	switch {
	case err != nil:
		return nil, usagef("paper: --measured %s: %w", c.Measured, err)
	case !c.Measure:
		return s, nil
	}
	return s, checkFiles(c.Measured)
}

// measure does the experiments that the store lacks, as many as --max-time allows.
func (c *paperCmd) measure(s *paper.Store, to *call) (*budget.Cut, error) {
	limit := c.budget()
	ctx, stop := interruptible()
	defer stop()
	ctx, free := limit.Context(ctx)
	defer free()
	m := &paper.Measurer{Store: s, Size: c.size()}
	steps, done := m.Steps(), 0
	announce(to.err, "paper", c.time(steps), c.MaxTime)
	bar := progressbar.Start(to.err, "paper: measurements", steps)
	defer bar.Stop()
	m.Output, m.Note = bar.Over(to.err), bar.Note
	m.Step = func(n int) { done += n; bar.Step(n) }
	m.Start = func(e paper.Experiment, args []string) (func(number int) fault.Start, error) {
		o := collectiveOptions{Op: e.Op, N: e.Ranks, exitsFlag: c.exitsFlag, Fabric: "shm"}
		return o.startJobs(&call{args, to.out, to.err}, bar)
	}
	err := m.Run(ctx)
	var cut *budget.Cut
	if err != nil && budget.Ended(ctx) {
		cut, err = limit.Cut(done, steps, "experiments"), nil
		fmt.Fprintf(bar.Over(to.err), "ftbench paper: %v\n", cut)
	}
	err = orInterrupt(ctx, err)
	if err != nil && s.Stored {
		bar.Stop()
		fmt.Fprintf(to.err, "ftbench: the measurements so far are in %s; continue with --measured %s\n", s.Path, s.Path)
	}
	return cut, err
}

// time is about how long so many experiments and the predictions take on two cores.
func (c *paperCmd) time(experiments int) time.Duration {
	s := c.size()
	each := time.Duration(s.Sets*s.Calls) * time.Duration(slices.Max(s.Ranks)) * 30 * time.Microsecond
	all := time.Duration(experiments) * (each + startTime(slices.Max(s.Ranks)))
	if c.Quick {
		return all + 10*time.Second
	}
	return all + time.Minute
}

// predict makes the report.
func (c *paperCmd) predict(m *paper.Measured, to *call) (*paper.Report, error) {
	o := c.predictions()
	bar := progressbar.Start(to.err, "paper: predictions", paper.Steps(m, o))
	defer bar.Stop()
	return paper.Build(m, o, func() { bar.Step(1) })
}

// fit finds the fitted parameters again.
func (c *paperCmd) fit(to *call) error {
	file, out := report.Begin("paper-fit"), to.words(c.JSON).out
	p, err := paper.Fit(out)
	if err != nil {
		return err
	}
	r := fitResults{int64(p.Engine / sim.Nanosecond), int64(p.Latency / sim.Nanosecond)}
	if _, err := fmt.Fprintf(out, "engine %d ns, latency %d ns; built in: engine %d ns, latency %d ns\n",
		r.Engine, r.Latency, sim.Fitted.Engine/sim.Nanosecond, sim.Fitted.Latency/sim.Nanosecond); err != nil {
		return err
	}
	return to.store(file, c.JSON, r)
}
