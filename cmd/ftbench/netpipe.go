package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/bench/budget"
	"github.com/banyan-hpc/banyan/bench/figure"
	"github.com/banyan-hpc/banyan/bench/netpipe"
	"github.com/banyan-hpc/banyan/bench/progressbar"
	"github.com/banyan-hpc/banyan/bench/report"
	"github.com/banyan-hpc/banyan/internal/launch/join"
)

// netpipeCmd has NetPIPE's letters where it has the same options.
type netpipeCmd struct {
	Lower         int            `short:"l" default:"1" help:"Smallest size in bytes. Default: ${default}."`
	Upper         int            `short:"u" default:"8388608" help:"Largest size in bytes. Default: ${default}."`
	Perturbation  int            `short:"p" default:"3" help:"How far beside each size to measure too, in bytes; 0: nothing beside. Default: ${default}."`
	Repeats       int            `short:"n" placeholder:"N" help:"Messages of a trial. Default: as many as --trial-time allows."`
	TrialTime     *time.Duration `placeholder:"TIME" help:"How long a trial takes. Default: 250ms; 1ms of virtual time with --fabric sim."`
	Trials        int            `default:"3" help:"Trials per size; the best counts. Default: ${default}."`
	Bidirectional bool           `short:"2" xor:"mode" help:"Both ranks send at once."`
	Stream        bool           `short:"s" xor:"mode" help:"Rank 0 sends without waiting for answers."`
	Invalidate    bool           `short:"I" help:"Invalidate caches: send and receive each message in memory that was not used for long."`
	memoryFlag
	Integrity bool     `short:"i" help:"Check every byte, in a pass of its own."`
	Out       string   `short:"o" placeholder:"FILE" help:"Store bytes, Mbps and seconds in columns, as NetPIPE's np.out; -: print them, and the lines on standard error."`
	Plot      string   `placeholder:"FILE" help:"Draw throughput against size, and against time; .svg or .png."`
	With      []string `sep:"none" placeholder:"[NAME=]FILE" help:"Draw the np.out of another run beside it; may be given several times."`
	JSON      string   `placeholder:"FILE" help:"Store the results and the environment; -: print them, and the lines on standard error."`
	paceFlags
	fabricFlags
	Aware bool `default:"true" negatable:"" help:"Fault-aware engine; --aware=false is the baseline that hangs when a peer dies."`
}

func (netpipeCmd) Help() string {
	return `Messages of many sizes go to and fro between two ranks, also of sizes a little beside
each power of two and each point half-way to the next; half of the round trip is the
time. The lines and the file's columns are NetPIPE's, and so is the unit: Mbps of 2^20
bits per second. Started alone, the command starts two ranks, each bound to a core;
under ftbench run, mpiexec (MPICH) or srun --mpi=pmi2 it joins the job. --fabric sim is
for one process alone. All sizes take about a minute and a half, --quick a few seconds.

Examples:
  ftbench netpipe
  ftbench netpipe -o np.out
  ftbench netpipe -u 65536 -p 0 --trial-time 50ms -o results/np.out
  ftbench netpipe -2 -i --plot results/both-ways.svg
  ftbench netpipe -I -o np.cold.out
  ftbench netpipe --memory registered -l 16384 -p 0
  ftbench netpipe --plot np.svg --with OpenMPI=np.openmpi --with NPtcp=np.tcp
  ftbench netpipe --fabric sim --json results/sim.json
  ftbench run -n 2 --bind core -- ftbench netpipe -s`
}

// netpipeResults are the results in the JSON file.
type netpipeResults struct {
	Fabric  string          `json:"fabric"`
	Aware   bool            `json:"aware"`
	Options netpipe.Options `json:"options"`
	Points  []netpipe.Point `json:"points"`
	Cut     *budget.Cut     `json:"cut,omitempty"` // of --max-time
}

func (c *netpipeCmd) Run(to *call) error {
	o, others, err := c.prepare()
	if err != nil {
		return err
	}
	words := to.words(c.Out, c.JSON)
	sizes := len(netpipe.Sizes(o.Lower, o.Upper, o.Perturbation))
	if c.simulated() {
		if err := alone("netpipe"); err != nil {
			return err
		}
	}
	if c.simulated() || !join.Started() {
		if err := checkFiles(c.Out, c.Plot, c.JSON); err != nil {
			return err
		}
	}
	bar := progressbar.Start(to.err, "netpipe", sizes)
	defer bar.Stop()
	isSize := func(line []byte) bool { return bytes.Contains(line, []byte(" times -->")) }
	if words == to {
		to = &call{to.args, bar.Lines(to.out, isSize), bar.Over(to.err)}
	} else {
		to = &call{to.args, bar.Over(to.out), bar.Lines(to.err, isSize)}
	}
	measure := func(w *banyan.World) error { return c.measure(w, o, others, to) }
	switch {
	case c.simulated():
		return banyan.Simulate(2, banyan.Simulation{Options: []banyan.Option{banyan.WithAware(c.Aware)}}, measure)
	case !join.Started():
		announce(to.err, "netpipe", time.Duration(float64(sizes)*(0.3+float64(o.Trials))*float64(o.TrialTime)), c.MaxTime)
		return startSelf(2, to, o.Budget.Export()...)
	}
	return inJob(c.Aware, measure, c.options()...)
}

// prepare checks the options before anything is measured.
func (c *netpipeCmd) prepare() (netpipe.Options, []curve, error) {
	o := netpipe.Defaults()
	o.Lower, o.Upper, o.Perturbation = c.Lower, c.Upper, c.Perturbation
	o.Trials, o.Repeats, o.Integrity, o.Cold = c.Trials, c.Repeats, c.Integrity, c.Invalidate
	o.Budget, o.Registered, o.Lent = c.budget(), c.registered(), c.lent()
	c.atMost(&o.Perturbation, 0)
	c.atMost(&o.Trials, 1)
	switch {
	case c.TrialTime != nil:
		o.TrialTime = *c.TrialTime
	case c.simulated(): // its trials are all alike
		o.TrialTime = time.Millisecond
	}
	c.shorter(&o.TrialTime, 50*time.Millisecond)
	switch {
	case c.Bidirectional:
		o.Mode = netpipe.Bidirectional
	case c.Stream:
		o.Mode = netpipe.Streaming
	}
	if err := cmp.Or(c.checkTime(), o.Check()); err != nil {
		return o, nil, usage(err)
	}
	if c.Out == dash && c.JSON == dash {
		return o, nil, usagef("netpipe: -o and --json cannot both be the standard output")
	}
	if c.Plot == "" {
		if len(c.With) > 0 {
			return o, nil, usagef("netpipe: --with draws, and there is no --plot FILE")
		}
		return o, nil, nil
	}
	if err := figure.Check(c.Plot); err != nil {
		return o, nil, usage(err)
	}
	others, err := readCurves(c.With)
	return o, others, err
}

// measure prints a line per size on rank 0 and writes the files.
func (c *netpipeCmd) measure(w *banyan.World, o netpipe.Options, others []curve, to *call) error {
	if w.Comm().Rank() != 0 {
		_, err := cutOf(netpipe.Run(w, o, nil))
		return err
	}
	file := report.Begin("netpipe")
	if err := checkFiles(c.Out, c.Plot, c.JSON); err != nil {
		return err
	}
	words := to.words(c.Out, c.JSON)
	out, err := c.create(to)
	if err != nil {
		return err
	}
	results := netpipeResults{Aware: c.Aware, Options: o, Points: []netpipe.Point{}}
	head, checked := netpipe.Head(), ""
	if o.Integrity {
		head, checked = head+"  Integrity", "     passed"
	}
	if _, err := fmt.Fprintln(words.out, head); err != nil {
		return errors.Join(err, out.Close())
	}
	err = netpipe.Run(w, o, func(p netpipe.Point) error {
		line := netpipe.Line(len(results.Points), p) + checked
		results.Points = append(results.Points, p)
		_, err := fmt.Fprintln(words.out, line)
		return errors.Join(err, netpipe.WriteRow(out, p))
	})
	results.Cut, err = cutOf(err)
	if err = errors.Join(err, printCut(words.out, results.Cut), out.Close()); err != nil {
		return err
	}
	if results.Fabric, err = c.used(w); err != nil {
		return err
	}
	return c.save(file, results, others, to)
}

// create makes the file of rows and missing directories, where one was asked for.
func (c *netpipeCmd) create(to *call) (io.WriteCloser, error) {
	switch c.Out {
	case "":
		return unclosed{io.Discard}, nil
	case dash:
		return unclosed{to.out}, nil
	}
	if err := os.MkdirAll(filepath.Dir(c.Out), 0o777); err != nil {
		return nil, err
	}
	return os.Create(c.Out)
}

// unclosed is a writer that Close leaves open.
type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }

// save writes the files beside that of rows and prints the names of all.
func (c *netpipeCmd) save(file *report.File, results netpipeResults, others []curve, to *call) error {
	if c.Plot != "" {
		title, fabric := fmt.Sprintf("NetPIPE, %v", results.Options.Mode), fabricName(results.Fabric)
		if c.Invalidate {
			title += ", cold caches"
		}
		source := func(string) string { return file.Source(fabric) }
		if err := figure.Save(c.Plot, figure.WithSource(source, netpipeCharts(title,
			append([]curve{ownCurve(results.Points)}, others...))...)...); err != nil {
			return err
		}
	}
	if err := to.store(file, c.JSON, results); err != nil {
		return err
	}
	_, err := io.WriteString(to.words(c.Out, c.JSON).out, named("files:", c.Out, c.Plot, c.JSON))
	return err
}
