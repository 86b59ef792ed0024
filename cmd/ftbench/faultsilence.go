package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/bench/fault"
	"github.com/banyan-hpc/banyan/bench/progressbar"
	"github.com/banyan-hpc/banyan/bench/report"
	"github.com/banyan-hpc/banyan/bench/table"
	"github.com/banyan-hpc/banyan/internal/launch"
	"github.com/banyan-hpc/banyan/internal/launch/join"
	"github.com/banyan-hpc/banyan/internal/netns"
)

// faultSilenceCmd measures the detection of a silent host.
type faultSilenceCmd struct {
	N        int           `short:"n" type:"ranks" default:"8" placeholder:"RANKS" help:"Ranks, spread evenly. Default: ${default}."`
	Hosts    netnsHosts    `default:"4" help:"Hosts, which are network namespaces of this machine; at least 3. Default: ${default}."`
	Rounds   int           `default:"4" help:"How many hosts are cut off, one after another, each from a job of its own. Default: ${default}."`
	Period   time.Duration `default:"500ms" help:"detect.period. Default: ${default}."`
	Timeout  time.Duration `default:"3s" help:"detect.timeout. Default: ${default}."`
	Patience time.Duration `default:"30s" help:"How long a survivor may take at all, or to be ready. Default: ${default}."`
	paceFlags
	JSON   string     `placeholder:"FILE" help:"Store all times and the environment; -: print them, and the table on standard error."`
	Fabric fabricList `placeholder:"LIST" help:"shm, verbs, unix, tcp, or several with commas: the fabrics that may be used, each pair of ranks takes the first that joins it. Default: BANYAN_FABRIC, else all."`
}

func (faultSilenceCmd) Help() string {
	return `The hosts are network namespaces on one bridge, which starts to drop all packets to and from
one of them: no connection breaks. The ranks of the other hosts wait for messages from all ranks
of the silent one. The time is measured from the start of the cut, some milliseconds before it
holds, until all these receives have ended with the error, over each survivor and over the last
of each round. The silent ranks end themselves, since the others are more.

A survivor may take detect.timeout and two periods: exit code 3 if one took longer. An error
before the cut, of another rank, or none within --patience: exit code 1. It takes
the privileges of ftbench run --netns.

Examples:
  ftbench fault silence
  ftbench fault silence -n 32 --rounds 20 --json results/silence.json
  ftbench fault silence --timeout 2s --period 100ms
  ftbench fault silence --hosts 3 -n 3 --fabric tcp`
}

// silentHost is the variable that names the silent host to a rank.
const silentHost = "BANYAN_FAULT_SILENT"

func (c *faultSilenceCmd) Run(to *call) (err error) {
	c.atMost(&c.Rounds, 1)
	o := fault.Silence{
		Budget: c.budget(),
		Ranks:  c.N, Hosts: int(c.Hosts), Rounds: c.Rounds, Period: c.Period, Timeout: c.Timeout, Patience: c.Patience,
	}
	if err := cmp.Or(c.checkTime(), o.Check()); err != nil {
		return usage(err)
	}
	if join.Started() {
		return faultRank("silence", func(w *banyan.World) error {
			if o.Silent, err = strconv.Atoi(os.Getenv(silentHost)); err != nil {
				return fmt.Errorf("fault silence: %s: %w", silentHost, err)
			}
			return o.Rank(w, to.out)
		}, c.Fabric, banyan.WithDetection(c.Period, c.Timeout))
	}
	if err := c.Fabric.crossesHosts(); err != nil {
		return usagef("fault silence: %w", err)
	}
	if err := checkFiles(c.JSON); err != nil {
		return err
	}
	net, err := netns.Open(netns.Config{Hosts: int(c.Hosts)})
	if err != nil {
		return fmt.Errorf("fault silence: %w", err)
	}
	defer func() { err = cmp.Or(err, net.Close()) }()
	return c.measure(o, net, to)
}

// measure cuts hosts off, prints the table and writes the file.
func (c *faultSilenceCmd) measure(o fault.Silence, net *netns.Net, to *call) error {
	file := report.Begin("fault-silence")
	ctx, stop := interruptible()
	defer stop()
	each := startTime(10*o.Ranks) + 2*o.Bound() + o.Period/2 // it waits for a timeout before the cut too
	announce(to.err, "fault silence", time.Duration(o.Rounds)*each, c.MaxTime)
	bar := progressbar.Start(to.err, "fault silence", o.Rounds)
	defer bar.Stop()
	job, err := faultJob(to, exitsFlag{}, bar.Over(to.err), o.Ranks)
	if err != nil {
		return err
	}
	job.Bind, job.Stderr, job.Prepare = false, &without{bar.Over(to.err), fencedEnd}, onHosts(net, o.Hosts)
	// Survivors are checked by their reports, failed ranks by their exit code.
	job.MayEnd = func(_ bool, end launch.End) bool { return end.Code == banyan.ExitFenced }
	network := fault.Network{
		Start: func(silent int) fault.Start {
			job := job
			job.Export = append(slices.Clip(job.Export), fmt.Sprintf("%s=%d", silentHost, silent))
			return job.Start
		},
		Cut: net.Isolate, Heal: net.Heal,
	}
	out := to.words(c.JSON).out
	result, err := o.Measure(ctx, network, bar.Over(out), func(fault.Round) { bar.Step(1) })
	if err != nil {
		return orInterrupt(ctx, err)
	}
	bar.Stop()
	if err := faultSilenceTable(out, result); err != nil {
		return err
	}
	if err := (outputs{json: c.JSON}).keep(file, result, nil, to); err != nil {
		return err
	}
	if result.Missed() {
		return exitCode(exitMissed)
	}
	return nil
}

// faultSilenceTable prints the percentiles and the verdict.
func faultSilenceTable(out io.Writer, r *fault.SilenceResult) error {
	o := r.Options
	ms := func(d time.Duration) float64 { return float64(d) / 1e6 }
	verdict := "met"
	if r.Missed() {
		verdict = "missed"
	}
	if err := printCut(out, r.Cut); err != nil {
		return err
	}
	title := fmt.Sprintf("# Banyan silent hosts, from cut to error, ms; %d ranks on %d hosts, %d rounds; detect.period %v, "+
		"detect.timeout %v", o.Ranks, o.Hosts, o.Rounds, o.Period, o.Timeout)
	if err := latencyTable(out, title, &r.Latencies, time.Millisecond); err != nil {
		return err
	}
	return table.Printf(out, "# B5-7: last survivor at most %.1f, bound %.1f (timeout + 2 periods): %s\n", ms(r.Last.Max),
		ms(r.Bound), verdict)
}
