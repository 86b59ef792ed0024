package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/bench/fault"
	"github.com/banyan-hpc/banyan/bench/figure"
	"github.com/banyan-hpc/banyan/bench/peers"
	"github.com/banyan-hpc/banyan/bench/progressbar"
	"github.com/banyan-hpc/banyan/bench/report"
	"github.com/banyan-hpc/banyan/internal/launch/join"
)

// faultDetectCmd measures detection.
type faultDetectCmd struct {
	N         int           `short:"n" type:"ranks" default:"2" placeholder:"RANKS" help:"Ranks of a round, the victim included. Default: ${default}."`
	Kills     int           `default:"100" help:"How many ranks are killed, one after another. Default: ${default}."`
	PerJob    int           `default:"1" placeholder:"KILLS" help:"Victims that each job starts with, which saves start-ups; victims sleep until their turn. Default: ${default}."`
	Wait      string        `enum:"victim,any,barrier,poll" default:"victim" help:"The operation in which survivors wait: ${enum}; a receive from the victim, a receive from any source, a barrier, a loop that tests a receive from the victim and never sleeps. Default: ${default}."`
	VictimRSS int           `name:"victim-rss" default:"0" placeholder:"MB" help:"MiB that a victim has touched beside those of any rank: the kernel frees them before some detectors notice the death. Default: ${default}."`
	Settle    time.Duration `default:"20ms" help:"Time between the last survivor's report that it is about to wait, and the kill; varied by half. Default: ${default}."`
	Timeout   time.Duration `default:"10s" help:"How long a survivor may take to learn of the death. Default: ${default}."`
	Start     time.Duration `name:"start-timeout" placeholder:"TIME" help:"How long the ranks of a job may take to be ready. Default: 30 s, and half a second more for each."`
	Bare      bool          `help:"Also kill processes of bare C, half of the kills before and half after: survivors wait at a word that the kernel marks, and do nothing else. Needs a C compiler."`
	Plot      string        `placeholder:"FILE" help:"Draw the share of survivors without the error against the time since the kill; .svg or .png."`
	paceFlags
	exitsFlag
	JSON   string     `placeholder:"FILE" help:"Store all times and the environment; -: print them, and the table on standard error."`
	Fabric fabricList `placeholder:"LIST" help:"shm, verbs, unix, tcp, or several with commas: the fabrics that may be used, each pair of ranks takes the first that joins it. Default: BANYAN_FABRIC, else all."`
}

func (faultDetectCmd) Help() string {
	return `A rank is killed with SIGKILL while the others wait for it. The time is measured from kill(2)
to the return of each survivor's operation with the error, on the clock that all processes of a
machine share, over each survivor and over the last survivor of each round. An error that names
another rank than the victim, comes before the kill, or does not come within --timeout is a failure
of the measurement: exit code 1. The start of a job has a limit of its own, which grows with the
number of ranks; a terminal shows its progress.

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
  ftbench fault detect --wait poll --kills 200 --victim-rss 10 --bare
  ftbench fault detect --fabric tcp`
}

// faultDetectResults are the results in the JSON file.
type faultDetectResults struct {
	Fabric string `json:"fabric"` // as given; "": all
	*fault.DetectionResult
	Bare *fault.Latencies `json:"bare,omitempty"`
}

func (c *faultDetectCmd) Run(to *call) error {
	c.atMost(&c.Kills, 10)
	o := fault.Detection{
		Budget: c.budget(),
		Ranks:  c.N, Kills: c.Kills, PerJob: c.PerJob, Wait: fault.Wait(c.Wait), VictimMB: c.VictimRSS,
		Settle: c.Settle, Timeout: c.Timeout, StartTimeout: c.Start,
	}
	if err := cmp.Or(c.checkTime(), o.Check()); err != nil {
		return usage(err)
	}
	if join.Started() {
		return faultRank("detect", func(w *banyan.World) error { return o.Rank(w, to.out) }, c.Fabric)
	}
	files := outputs{json: c.JSON, fabric: string(c.Fabric)}
	if c.Plot != "" {
		files.plots = []string{c.Plot}
	}
	if err := files.check(); err != nil {
		return err
	}
	return c.measure(o, files, to)
}

// measure kills, prints the table and writes the files.
func (c *faultDetectCmd) measure(o fault.Detection, files outputs, to *call) error {
	file := report.Begin("fault-detect")
	ctx, stop := interruptible()
	defer stop()
	if err := warnShared(to, o.Ranks, ", and survivors are woken one after another"); err != nil {
		return err
	}
	jobs := (o.Kills + o.PerJob - 1) / o.PerJob
	announce(to.err, "fault detect", time.Duration(jobs)*startTime(o.Processes(o.PerJob))+
		time.Duration(o.Kills)*(o.Settle+10*time.Millisecond), c.MaxTime)
	bar := progressbar.Start(to.err, "fault detect", o.Kills)
	defer bar.Stop()
	perJob := min(o.PerJob, o.Kills)
	job, err := faultJob(to, c.exitsFlag, bar.Over(to.err), o.Processes(perJob))
	if err != nil {
		return err
	}
	if os.Getenv(join.InitTimeoutEnv) == "" {
		job.InitTimeout = o.StartLimit(perJob)
	}
	out := to.words(c.JSON).out
	bare := bareDeaths{o: o}
	if c.Bare {
		if err := bare.kill(ctx, (o.Kills+1)/2); err != nil {
			return orInterrupt(ctx, err)
		}
	}
	watch := fault.Watch{Round: func(fault.Round) { bar.Step(1) }, Waiting: bar.Note}
	result, err := o.Measure(ctx, job.Start, bar.Over(out), watch)
	if err != nil {
		return orInterrupt(ctx, err)
	}
	if c.Bare && result.Cut == nil {
		if err := bare.kill(ctx, o.Kills/2); err != nil {
			return orInterrupt(ctx, err)
		}
	}
	bar.Stop()
	title := fmt.Sprintf("# Banyan failure detection, from kill to error, µs; %d ranks, %d kills, wait: %s", o.Ranks, o.Kills, o.Wait)
	if o.VictimMB > 0 {
		title += fmt.Sprintf(", victim with %d MiB", o.VictimMB)
	}
	if err := latencyTable(out, title, &result.Latencies, time.Microsecond); err != nil {
		return err
	}
	if err := bare.print(out, &result.Latencies); err != nil {
		return err
	}
	if err := printCut(out, result.Cut); err != nil {
		return err
	}
	return files.keep(file, faultDetectResults{string(c.Fabric), result, bare.latencies()}, faultDetectChart(result), to)
}

// bareDeaths are the same deaths among processes of bare C.
type bareDeaths struct {
	o      fault.Detection
	rounds [][]time.Duration
}

// kill adds so many deaths.
func (b *bareDeaths) kill(ctx context.Context, kills int) error {
	if kills == 0 {
		return nil
	}
	more, err := peers.Deaths(ctx, b.o.Ranks-1, kills, b.o.VictimMB, b.o.Wait == fault.Polling)
	b.rounds = append(b.rounds, more...)
	return err
}

// latencies are nil if nothing was killed.
func (b *bareDeaths) latencies() *fault.Latencies {
	if len(b.rounds) == 0 {
		return nil
	}
	l := fault.LatenciesOf(b.rounds)
	return &l
}

// print writes a table of them, and the ratio of the ranks' times to theirs.
func (b *bareDeaths) print(out io.Writer, ours *fault.Latencies) error {
	l := b.latencies()
	if l == nil {
		return nil
	}
	title := fmt.Sprintf("# Processes of bare C, from kill to their words, µs; %d kills", len(b.rounds))
	if err := latencyTable(out, title, l, time.Microsecond); err != nil {
		return err
	}
	ratio := func(a, b time.Duration) float64 { return float64(a) / float64(b) }
	_, err := fmt.Fprintf(out, "# Ranks over bare processes: each %.2f, 90 %% %.2f; last %.2f, 90 %% %.2f\n",
		ratio(ours.Each.P50, l.Each.P50), ratio(ours.Each.P90, l.Each.P90), ratio(ours.Last.P50, l.Last.P50),
		ratio(ours.Last.P90, l.Last.P90))
	return err
}

// faultDetectChart draws the tails.
func faultDetectChart(r *fault.DetectionResult) []figure.Chart {
	o := r.Options
	var lines seriesByName
	tail := func(name string, times []time.Duration) {
		for _, p := range fault.Tail(times) {
			lines.add(name, max(1e-3, float64(p.After)/1e3), p.Share)
		}
	}
	tail("each survivor", r.All())
	if o.Ranks > 2 { // otherwise they are the same
		tail("last survivor", r.Lasts())
	}
	return []figure.Chart{{
		Title: fmt.Sprintf("From kill to error, %d ranks, %d kills, wait: %s", o.Ranks, o.Kills, o.Wait),
		X:     figure.Axis{Title: "time since the kill (µs)"}, Y: figure.Axis{Title: "share without the error"},
		Series: lines.list,
	}}
}
