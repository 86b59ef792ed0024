package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/bench/fault"
	"github.com/banyan-hpc/banyan/bench/progressbar"
	"github.com/banyan-hpc/banyan/bench/report"
	"github.com/banyan-hpc/banyan/bench/table"
	"github.com/banyan-hpc/banyan/ft/control"
	"github.com/banyan-hpc/banyan/internal/launch"
	"github.com/banyan-hpc/banyan/internal/launch/join"
	"github.com/banyan-hpc/banyan/internal/netns"
)

// faultSoakCmd looks for false failures.
type faultSoakCmd struct {
	N       int           `short:"n" type:"ranks" default:"32" placeholder:"RANKS" help:"Ranks. Default: ${default}."`
	For     time.Duration `default:"10m" help:"How long. Default: ${default}."`
	Absent  time.Duration `default:"5s" help:"How long a fourth of the ranks makes no call, in turn. Default: ${default}."`
	Netns   netnsHosts    `placeholder:"HOSTS" help:"Run on so many network namespaces of this machine as if they were hosts: shared memory within each, TCP between them."`
	Period  time.Duration `placeholder:"TIME" help:"detect.period. Default: as the library has it."`
	Timeout time.Duration `placeholder:"TIME" help:"detect.timeout. Default: as the library has it, which is longer where ranks share cores."`
	paceFlags
	exitsFlag
	JSON   string     `placeholder:"FILE" help:"Store the observations of each rank and the environment; -: print them, and the table on standard error."`
	Fabric fabricList `placeholder:"LIST" help:"shm, verbs, unix, tcp, or several with commas: the fabrics that may be used, each pair of ranks takes the first that joins it. Default: BANYAN_FABRIC, else all."`
}

func (faultSoakCmd) Help() string {
	return `Each rank computes and makes garbage without end, on top of that the ranks exchange
messages in bursts, and a fourth of them in turn makes no call for --absent. No rank dies:
a rank that is reported failed, or that ends itself, is a false failure. Exit code 1.

The table has the counts of the failure detectors: the longest delay of a rank's heartbeats, the
longest silence of a living rank, and the number of suspicions. If the machine is as busy as in
production, a silence of more than half of detect.timeout means that it is too short.

Examples:
  ftbench fault soak
  ftbench fault soak --for 1m --fabric tcp
  ftbench fault soak -n 64 --netns 4 --timeout 2s --period 200ms
  ftbench fault soak --for 10h --json results/soak.json`
}

func (c *faultSoakCmd) Run(to *call) error {
	c.shorter(&c.For, 5*time.Second)
	c.shorter(&c.Absent, time.Second)
	o := fault.Soak{Ranks: c.N, For: c.For, Absent: c.Absent, Budget: c.budget()}
	if err := cmp.Or(c.checkTime(), o.Check()); err != nil {
		return usage(err)
	}
	if err := fault.CheckTimes(c.Period, c.Timeout); err != nil {
		return usagef("fault soak: %w", err)
	}
	if join.Started() {
		return faultRank("soak", func(w *banyan.World) error { return o.Rank(w, to.out) }, c.Fabric, c.times()...)
	}
	if c.N < int(c.Netns) {
		return usagef("fault soak: -n %d: --netns=%d needs a rank for each namespace", c.N, c.Netns)
	}
	if c.Netns > 1 {
		if err := c.Fabric.crossesHosts(); err != nil {
			return usagef("fault soak: %w", err)
		}
	}
	if err := checkFiles(c.JSON); err != nil {
		return err
	}
	return c.soak(o, to)
}

// times are the detector's, if any is given.
func (c *faultSoakCmd) times() []banyan.Option {
	if c.Period == 0 && c.Timeout == 0 {
		return nil
	}
	return []banyan.Option{banyan.WithDetection(
		cmp.Or(c.Period, time.Duration(control.DefaultPeriod)), cmp.Or(c.Timeout, time.Duration(control.DefaultTimeout)))}
}

// describe formats these times.
func (c *faultSoakCmd) describe() string {
	if c.times() == nil {
		return "the library's detect.period and detect.timeout"
	}
	return fmt.Sprintf("detect.period %v, detect.timeout %v",
		cmp.Or(c.Period, time.Duration(control.DefaultPeriod)), cmp.Or(c.Timeout, time.Duration(control.DefaultTimeout)))
}

// soak runs the job, prints the table, also of a failed job, and writes the file.
func (c *faultSoakCmd) soak(o fault.Soak, to *call) (err error) {
	file := report.Begin("fault-soak")
	ctx, stop := interruptible()
	defer stop()
	words := to.words(c.JSON)
	announce(to.err, "fault soak", startTime(o.Ranks)+o.For+o.Absent/2, c.MaxTime)
	bar := progressbar.Start(to.err, "fault soak", int(c.For/time.Second))
	defer bar.Stop()
	job, err := faultJob(to, c.exitsFlag, io.Discard, o.Ranks, o.Budget.Export()...)
	if err != nil {
		return err
	}
	job.Bind, job.Stderr, job.Abort = false, bar.Over(to.err), true
	if c.Netns > 0 {
		net, nerr := netns.Open(netns.Config{Hosts: int(c.Netns)})
		if nerr != nil {
			return fmt.Errorf("--netns: %w", nerr)
		}
		defer func() { err = cmp.Or(err, net.Close()) }()
		setExits, place := job.Prepare, onHosts(net, int(c.Netns))
		job.Prepare = func(spec *launch.Spec) error { return cmp.Or(setExits(spec), place(spec)) }
	}
	start, shown := time.Now(), 0
	result, err := o.Measure(ctx, job.Start, bar.Over(words.out), func(r *fault.SoakResult) {
		spent := int(time.Since(start) / time.Second)
		bar.Step(spent - shown)
		shown = spent
		d := r.All().Detector
		bar.Note(fmt.Sprintf("late %v, silence %v", d.Late.Round(time.Millisecond), d.Silence.Round(time.Millisecond)))
	})
	bar.Stop()
	if result == nil {
		return orInterrupt(ctx, err)
	}
	if slices.ContainsFunc(result.Ranks, func(s fault.Seen) bool { return s.Phases > 0 }) {
		if terr := c.table(words.out, result, err == nil, time.Since(start)); terr != nil {
			return terr
		}
	}
	if err != nil {
		return orInterrupt(ctx, err)
	}
	if err := printCut(words.out, result.Cut); err != nil {
		return err
	}
	return outputs{json: c.JSON}.keep(file, result, nil, to)
}

// table prints the counts, also of a job that has ended early.
func (c *faultSoakCmd) table(out io.Writer, r *fault.SoakResult, whole bool, spent time.Duration) error {
	length := r.Options.For.String()
	if !whole {
		length = fmt.Sprintf("%v of %v", spent.Round(time.Second), length)
	}
	all := r.All()
	ms := func(d time.Duration) float64 { return float64(d) / 1e6 }
	t := table.Table{
		W: out, Title: fmt.Sprintf("# Banyan under load: %d ranks for %s; %s", r.Options.Ranks, length, c.describe()),
		Columns: []table.Column{{Name: "# Phases", Left: true}, {Name: "Messages"}, {Name: "Collections"},
			{Name: "Latest (ms)", Format: "%.0f"}, {Name: "Silence (ms)", Format: "%.0f"}, {Name: "Suspicions"}},
	}
	return t.Write([][]any{{all.Phases, all.Messages, all.Collections, ms(all.Detector.Late), ms(all.Detector.Silence),
		all.Detector.Suspicions}})
}
