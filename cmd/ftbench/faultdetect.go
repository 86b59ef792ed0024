package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/banyan-hpc/banyan"
	faultbench "github.com/banyan-hpc/banyan/bench/fault"
	"github.com/banyan-hpc/banyan/bench/figure"
	"github.com/banyan-hpc/banyan/bench/progressbar"
	"github.com/banyan-hpc/banyan/bench/report"
	"github.com/banyan-hpc/banyan/internal/affinity"
	"github.com/banyan-hpc/banyan/internal/launch/join"
)

// faultCmd has the measurements of failures.
type faultCmd struct {
	Detect    faultDetectCmd    `cmd:"" help:"Time from the death of a rank to the error at those that wait for it."`
	Silence   faultSilenceCmd   `cmd:"" help:"Time from the cut of a host's network to the error at the ranks of the others."`
	Soak      faultSoakCmd      `cmd:"" help:"Ranks under full load, none of which may be taken for dead."`
	Agree     faultAgreeCmd     `cmd:"" help:"Time of an agreement, against a reduction and a broadcast."`
	Shrink    faultShrinkCmd    `cmd:"" help:"Time to make a communicator of the ranks that live, against an agreement."`
	Revoke    faultRevokeCmd    `cmd:"" help:"Time until all ranks have left a communicator that one revokes, against a barrier."`
	Rebalance faultRebalanceCmd `cmd:"" help:"Time to compute a rank's place in the tree of a collective, after failures."`
	Barrier   faultBarrierCmd   `cmd:"" help:"A barrier of the ranks that live, in each design, against one that knows of no failures among as many."`
	Bcast     faultRootedCmd    `cmd:"" help:"A broadcast among the ranks that live, measured like the barrier."`
	Reduce    faultRootedCmd    `cmd:"" help:"A reduction to one rank, measured like the barrier."`
	Allreduce faultAllreduceCmd `cmd:"" help:"A reduction whose result all get, measured like the barrier."`
	Gather    faultRootedCmd    `cmd:"" help:"The blocks of all ranks, collected at one; measured like the barrier."`
	Scatter   faultRootedCmd    `cmd:"" help:"The blocks of one rank, dealt out to all; measured like the barrier."`
	Drill     faultDrillCmd     `cmd:"" help:"Random programs whose ranks are killed anywhere: who survives must end, with the right data."`
}

// faultDetectCmd measures detection.
type faultDetectCmd struct {
	N         int           `short:"n" default:"2" placeholder:"RANKS" help:"Ranks of a round, the victim included. Default: ${default}."`
	Kills     int           `default:"100" help:"How many ranks are killed, one after another. Default: ${default}."`
	PerJob    int           `default:"1" placeholder:"KILLS" help:"Victims that each job starts with, which saves start-ups; those whose turn has not come sleep. Default: ${default}."`
	Wait      string        `enum:"victim,any,barrier,poll" default:"victim" help:"What survivors wait in: ${enum}; a receive from the victim, a receive from any source, a barrier, a loop that tests a receive from the victim and never sleeps. Default: ${default}."`
	VictimRSS int           `name:"victim-rss" default:"0" placeholder:"MB" help:"MiB that a victim has touched beside what a rank has anyway: the kernel gives them back before some detectors hear of the death. Default: ${default}."`
	Settle    time.Duration `default:"20ms" help:"Time between the last survivor's word that it is about to wait, and the kill; varied by half. Default: ${default}."`
	Timeout   time.Duration `default:"10s" help:"How long a survivor may take to learn of the death. Default: ${default}."`
	Start     time.Duration `name:"start-timeout" placeholder:"TIME" help:"How long the ranks of a job may take to be ready. Default: 30 s, and half a second more for each."`
	Plot      string        `placeholder:"FILE" help:"Draw which share of the survivors did not know yet against the time since the kill; .svg or .png."`
	exitsFlag
	JSON   string     `placeholder:"FILE" help:"Store all times and the environment; -: print them, and the table on standard error."`
	Fabric fabricList `placeholder:"LIST" help:"shm, unix, tcp, or several with commas: the fabrics that may be used, each pair of ranks takes the first that joins it. Default: BANYAN_FABRIC, else all."`
}

// Help has the examples.
func (faultDetectCmd) Help() string {
	return `A rank is killed with SIGKILL while the others wait for it; the time from kill(2) to the
return of each survivor's operation with the error is what is measured, on the clock
that all processes of a machine share. Over each survivor, and over the last survivor of
each round. An error that names anybody but the victim, comes before the kill, or does
not come within --timeout is a failure of the measurement: exit code 1. The start of a job has
a limit of its own, which grows with the number of ranks; a terminal shows how far it is.

The command starts its ranks itself: bound to a core each where there are enough, else
unbound. With --per-job 1 each kill has a job of its own, so nothing but the ranks of the
round is there.

Examples:
  ftbench fault detect
  ftbench fault detect --kills 1000 --victim-rss 512 --json results/detect.json
  ftbench fault detect -n 32 --kills 200 --plot results/detect.svg
  ftbench fault detect -n 8 --wait barrier --per-job 10
  ftbench fault detect -n 400 --kills 5 --timeout 1m
  ftbench fault detect --exits off
  ftbench fault detect --wait poll --kills 200 --victim-rss 10
  ftbench fault detect --fabric tcp`
}

// faultDetectResults are the results in the JSON file.
type faultDetectResults struct {
	Fabric string `json:"fabric"` // as given; "": all
	*faultbench.Result
}

// options are those of the harness.
func (c *faultDetectCmd) options() faultbench.Options {
	return faultbench.Options{
		Ranks: c.N, Kills: c.Kills, PerJob: c.PerJob, Wait: faultbench.Wait(c.Wait), VictimMB: c.VictimRSS,
		Settle: c.Settle, Timeout: c.Timeout, StartTimeout: c.Start,
	}
}

// Run measures, or is a rank of a job that it has started.
func (c *faultDetectCmd) Run(to *call) error {
	o := c.options()
	if err := o.Check(); err != nil {
		return usage(err)
	}
	if join.Started() {
		return c.rank(o, to)
	}
	if c.Plot != "" {
		if err := figure.Check(c.Plot); err != nil {
			return usage(err)
		}
	}
	if err := checkFiles(c.Plot, c.JSON); err != nil {
		return err
	}
	return c.measure(o, to)
}

func (c *faultDetectCmd) rank(o faultbench.Options, to *call) error {
	return deadlyRank("detect", func(w *banyan.World) error { return faultbench.Rank(w, o, to.out) }, c.Fabric)
}

// measure kills, prints the table and writes the files.
func (c *faultDetectCmd) measure(o faultbench.Options, to *call) error {
	file := report.Begin("fault-detect")
	ctx, stop := interruptible()
	defer stop()
	words := to.words(c.JSON)
	cpus, err := affinity.Allowed()
	if err != nil {
		return err
	}
	if len(cpus) < o.Ranks {
		fmt.Fprintf(to.err, "ftbench: %d ranks on %d CPU: they take turns, and survivors are woken one after another\n", o.Ranks, len(cpus))
	}
	bar := progressbar.Start(to.err, "fault detect", o.Kills)
	defer bar.Stop()
	job := deadlyJob{args: to.args, exits: c.exitsFlag, err: &withoutKills{bar.Over(to.err)}, bind: len(cpus) >= o.Processes(min(o.PerJob, o.Kills))}
	if os.Getenv(join.InitTimeoutEnv) == "" {
		job.initTimeout = o.StartLimit(min(o.PerJob, o.Kills))
	}
	result, err := faultbench.Detect(ctx, o, job.start, bar.Over(words.out), faultbench.Watch{
		Round: func(faultbench.Round) { bar.Step(1) }, Waiting: bar.Note,
	})
	if err != nil {
		return orInterrupt(ctx, err)
	}
	bar.Stop()
	if err := faultDetectTable(words.out, result); err != nil {
		return err
	}
	if c.Plot != "" {
		if err := figure.Save(c.Plot, faultDetectChart(result)); err != nil {
			return err
		}
	}
	if err := to.store(file, c.JSON, faultDetectResults{string(c.Fabric), result}); err != nil {
		return err
	}
	_, err = io.WriteString(words.out, named("files:", c.Plot, c.JSON))
	return err
}

// faultDetectTable prints the percentiles.
func faultDetectTable(out io.Writer, r *faultbench.Result) error {
	o := r.Options
	us := func(d time.Duration) float64 { return float64(d) / 1e3 }
	text := fmt.Sprintf("# Banyan failure detection, from kill to error, µs; %d ranks, %d kills, wait: %s", o.Ranks, o.Kills, o.Wait)
	if o.VictimMB > 0 {
		text += fmt.Sprintf(", victim with %d MiB", o.VictimMB)
	}
	text += fmt.Sprintf("\n%-18s%10s%12s%12s%12s%12s%12s\n", "# Survivor", "Samples", "Min", "P50", "P90", "P99", "Max")
	for _, row := range []struct {
		name string
		s    faultbench.Spread
	}{{"each", r.Each}, {"last", r.Last}} {
		s := row.s
		text += fmt.Sprintf("%-18s%10d%12.1f%12.1f%12.1f%12.1f%12.1f\n", row.name, s.Count, us(s.Min), us(s.P50), us(s.P90), us(s.P99), us(s.Max))
	}
	_, err := io.WriteString(out, text)
	return err
}

// faultDetectChart draws the tails.
func faultDetectChart(r *faultbench.Result) figure.Chart {
	o := r.Options
	tail := func(name string, times []time.Duration) figure.Series {
		s := figure.Series{Name: name}
		for _, step := range faultbench.Unaware(times) {
			s.Points = append(s.Points, figure.Point{X: max(1e-3, float64(step.After)/1e3), Y: step.Share})
		}
		return s
	}
	series := []figure.Series{tail("each survivor", r.All())}
	if o.Ranks > 2 { // else they are the same
		series = append(series, tail("last survivor", r.Lasts()))
	}
	return figure.Chart{
		Title: fmt.Sprintf("From kill to error, %d ranks, %d kills, wait: %s", o.Ranks, o.Kills, o.Wait),
		X:     figure.Axis{Title: "time since the kill (µs)"}, Y: figure.Axis{Title: "share that does not know yet"},
		Series: series,
	}
}
