package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/bench/budget"
	"github.com/banyan-hpc/banyan/bench/fault"
	"github.com/banyan-hpc/banyan/bench/figure"
	"github.com/banyan-hpc/banyan/bench/kill"
	"github.com/banyan-hpc/banyan/bench/progressbar"
	"github.com/banyan-hpc/banyan/bench/report"
	"github.com/banyan-hpc/banyan/bench/table"
	"github.com/banyan-hpc/banyan/internal/launch/join"
)

// collectiveOptions are those of all collective operations among the survivors.
type collectiveOptions struct {
	Op fault.Op `kong:"-"`

	N          int           `short:"n" type:"ranks" default:"16" placeholder:"RANKS" help:"Ranks of each job, the failed ones included. Default: ${default}."`
	Failures   []int         `placeholder:"LIST" help:"How many ranks are killed before anything is measured, a job for each number. Default: 0, 1, 2, 4 and so on, up to three quarters of the ranks."`
	Kill       []kill.Order  `default:"worst" placeholder:"LIST" help:"In which order: worst (ranks 1, 2, 3, …), average (as many parents as leaves of the binomial tree), best (from the highest rank down), random, or several with commas. Default: ${default}."`
	Design     []string      `default:"unaware,reroute,lookup,rebalance" placeholder:"LIST" help:"Designs: reroute, lookup, rebalance, corrected, with commas; unaware, the baseline among the living, is always measured. Default: ${default}."`
	Tree       []string      `default:"binomial" placeholder:"LIST" help:"binomial, knomial:K, binary, chain, flat, node, with commas: all designs on each of them. Default: ${default}."`
	Sets       *int          `placeholder:"N" help:"Sets of each design, in turn. Default: 30, with --fabric sim 2."`
	Ops        *int          `placeholder:"N" help:"Operations of a set. Default: 300, with --fabric sim 20."`
	Unknown    bool          `help:"Kill ranks one after another while the operation runs, and measure how long it takes until all others have the error, and have validated. --failures is then how many die in a job (default: three quarters), --sets how many deaths each design sees at least."`
	Undetected bool          `help:"For barrier and bcast: --failures ranks are dead when the operation starts and no rank knows; predict, for a machine described by --machine and up to 1048576 ranks, which living ranks complete without any detection, when, and with how many messages, and when all have completed after a detection."`
	Machine    string        `default:"infiniband" placeholder:"NAME" help:"With --undetected: a profile of ftbench sim, or a file of parameters. Default: ${default}."`
	Detection  time.Duration `default:"3s" placeholder:"DURATION" help:"With --undetected: the time after which all living ranks know of all dead ones. Default: ${default}, that of a machine that falls silent."`
	Plot       []string      `placeholder:"FILE" help:"Draw the times against the number of failures; .svg or .png, or both with a comma."`
	JSON       string        `placeholder:"FILE" help:"Store all sets and the environment; -: print them, and the table on standard error."`
	paceFlags
	exitsFlag
	Fabric anyFabric `placeholder:"LIST" help:"shm, verbs, unix, tcp, or several with commas: the fabrics that may be used, each pair of ranks takes the first that joins it; or sim. Default: BANYAN_FABRIC, else all."`
}

// sizeFlag is that of operations with data.
type sizeFlag struct {
	Size int `default:"1024" placeholder:"BYTES" help:"Bytes that each rank sends or receives. Default: ${default}."`
}

type (
	faultBarrierCmd   struct{ collectiveOptions }
	faultAllreduceCmd struct {
		collectiveOptions
		sizeFlag
	}
	faultRootedCmd struct {
		collectiveOptions
		sizeFlag
		Roots string `enum:"fixed,rotate" default:"fixed" help:"fixed: rank 0; rotate: the living in turn, so that a stored tree hardly ever fits. Default: ${default}."`
	}
)

func (c *collectiveOptions) Help() string {
	text := `Ranks are killed with SIGKILL; the others validate, and what the operation then takes in each design
is compared with the unaware design on a communicator of the living alone, made after the deaths: as many ranks, in the same places.
A set is a loop of --ops operations, and its time is that of the slowest rank. Each design has a set in turn, within one job;
ratio and difference are the medians over such rounds, with their 95 % intervals. A design is equal to the baseline if the whole
interval of the ratio lies within 0.95…1.05, slower or faster if it lies outside, and otherwise undecided: more --sets
make the interval narrower. The command starts its ranks itself, bound to a core each where there are enough.

Designs: reroute checks at each step whether the other rank lives, and goes round it; lookup has found the same edges
when it validated; rebalance builds the tree anew over the survivors; corrected, for barrier and bcast, needs no validate and
completes in spite of failures that nobody knows (its other operations are those of rebalance).

--fabric sim runs all ranks in this process in virtual time, at any scale; its intervals are from the shortest to the longest set.

Examples:
  ftbench fault OP
  ftbench fault OP -n 64 --failures 0,8,16,32,48 --kill worst,average,best --json results/OP.json
  ftbench fault OP -n 32 --fabric tcp --design rebalance
  ftbench fault OP -n 8 --unknown
  ftbench fault OP -n 64 --unknown --fabric sim
  ftbench fault OP -n 8 --unknown --design rebalance,corrected
  ftbench fault OP -n 512 --failures 0,8,64,256,496 --fabric sim --plot OP.svg`
	if c.Op == fault.Barrier || c.Op == fault.Bcast {
		text += `
  ftbench fault OP -n 1024 --undetected --failures 1,10,100 --kill random,worst --design unaware,rebalance,corrected`
	}
	switch {
	case c.Op.Rooted():
		text += `
  ftbench fault OP --roots rotate --size 65536 --tree binomial,chain`
	case c.Op == fault.Allreduce:
		text += `
  ftbench fault OP --size 8 --tree binomial,knomial:4`
	}
	return strings.ReplaceAll(text, "OP", string(c.Op))
}

func (c *faultBarrierCmd) Run(to *call) error { return c.run(fault.Collective{}, to) }

func (c *faultAllreduceCmd) Run(to *call) error {
	return c.run(fault.Collective{Size: c.Size}, to)
}

func (c *faultRootedCmd) Run(to *call) error {
	return c.run(fault.Collective{Size: c.Size, Rotate: c.Roots == "rotate"}, to)
}

// jobs makes the options of all jobs.
func (c *collectiveOptions) jobs(o fault.Collective) []fault.Collective {
	o.Op, o.Ranks, o.Sets, o.Calls, o.Designs, o.Trees = c.Op, c.N, 30, 300, c.Design, c.Tree
	if c.Fabric == simulator {
		o.Sets, o.Calls = 2, 20
	}
	failures := c.Failures
	if len(failures) == 0 && c.Undetected {
		for f := 1; f < c.N/4; f *= 4 {
			failures = append(failures, f)
		}
	}
	if len(failures) == 0 {
		failures = fault.DefaultFailures(c.N)
	}
	if c.Unknown {
		o.Sets, failures = 30, []int{max(1, min(c.N*3/4, c.N-2))}
		if len(c.Failures) > 0 {
			failures = []int{slices.Max(c.Failures)}
		}
	}
	if c.Sets != nil {
		o.Sets = *c.Sets
	}
	if c.Unknown {
		o.Calls = 1
	} else if c.Ops != nil {
		o.Calls = *c.Ops
	}
	c.atMost(&o.Sets, 6)
	c.atMost(&o.Calls, 50)
	o.Budget = c.budget()
	var out []fault.Collective
	for _, o.Kill = range c.Kill {
		for _, o.Failures = range failures {
			out = append(out, o)
			for k := 1; c.Unknown && k < o.UnknownJobs(); k++ {
				out = append(out, o)
			}
		}
	}
	return out
}

// check returns an error for options that make no sense.
func (c *collectiveOptions) check(jobs []fault.Collective) error {
	if err := c.checkTime(); err != nil {
		return err
	}
	if c.Unknown && len(c.Plot) > 0 {
		return usagef("fault %s: --unknown gives no curve: it does not go with --plot", c.Op)
	}
	if c.Undetected && (c.Unknown || c.Op != fault.Barrier && c.Op != fault.Bcast) {
		return usagef("fault %s: --undetected is for barrier and bcast, without --unknown", c.Op)
	}
	for _, o := range jobs {
		check := o.Check
		if c.Unknown {
			check = o.CheckUnknown
		}
		if err := check(); err != nil {
			return usage(err)
		}
	}
	return nil
}

// jobEnv is the variable that contains the number of a rank's job.
const jobEnv = "BANYAN_FAULT_JOB"

func (c *collectiveOptions) run(o fault.Collective, to *call) error {
	jobs := c.jobs(o)
	if err := c.check(jobs); err != nil {
		return err
	}
	if c.Undetected {
		return c.predictUndetected(jobs, to)
	}
	if join.Started() {
		return c.rank(jobs, to)
	}
	if lines := len(jobs[0].Lines()) * len(c.Kill); len(c.Plot) > 0 && lines > figure.MaxSeries {
		return usagef("fault %s: --plot of %d lines: at most %d can be told apart; name fewer of --design, --tree or --kill",
			c.Op, lines, figure.MaxSeries)
	}
	files := outputs{c.Plot, c.JSON, string(c.Fabric)}
	if err := files.check(); err != nil {
		return err
	}
	kind, measure := "fault-"+string(c.Op), c.measure
	if c.Unknown {
		kind, measure = kind+"-unknown", c.measureUnknown
	}
	file := report.Begin(kind)
	results, chart, err := measure(jobs, to)
	if err != nil {
		return err
	}
	return files.keep(file, results, chart, to)
}

// rank is one of a job's.
func (c *collectiveOptions) rank(jobs []fault.Collective, to *call) error {
	if c.Fabric == simulator {
		return usagef("fault %s: --fabric sim has all ranks in one process: start it alone", c.Op)
	}
	return faultRank(string(c.Op), func(w *banyan.World) error {
		var number int
		if _, err := fmt.Sscan(os.Getenv(jobEnv), &number); err != nil || number < 0 || number >= len(jobs) {
			return fmt.Errorf("fault %s: %s=%q is none of %d jobs", c.Op, jobEnv, os.Getenv(jobEnv), len(jobs))
		}
		if c.Unknown {
			return jobs[number].RankUnknown(w, number, to.out)
		}
		return jobs[number].Rank(w, to.out)
	}, fabricList(c.Fabric))
}

// collectiveResults are the results in the JSON file.
type collectiveResults struct {
	Fabric string                   `json:"fabric"` // as given; "": all
	Jobs   []fault.JudgedCollective `json:"jobs"`
	Cut    *budget.Cut              `json:"cut,omitempty"` // of --max-time
}

// measure runs the jobs and prints the table.
func (c *collectiveOptions) measure(jobs []fault.Collective, to *call) (any, []figure.Chart, error) {
	results := &collectiveResults{Fabric: string(c.Fabric)}
	announce(to.err, "fault "+string(c.Op), c.time(jobs), c.MaxTime)
	bar := progressbar.Start(to.err, "fault "+string(c.Op), jobs[0].Sets*len(jobs))
	defer bar.Stop()
	ctx, stop, start, err := c.starter(bar, to, jobs[0].Budget)
	if err != nil {
		return nil, nil, err
	}
	defer stop()
	out := bar.Over(to.words(c.JSON).out)
	rows := collectiveTable(out, jobs[0], c.Fabric == simulator)
	err = rows.Begin()
	for i, o := range jobs {
		if o.Budget.Over() && results.Cut == nil {
			results.Cut = o.Budget.Cut(i*o.Sets, o.Sets*len(jobs), "sets")
		}
		if err != nil || results.Cut != nil {
			break
		}
		bar.Note(fmt.Sprintf("%d of %d ranks dead", o.Failures, o.Ranks))
		r, merr := o.Measure(ctx, start(i, o), out, func() { bar.Step(1) })
		if merr != nil {
			_ = rows.End() // prints the measured rows, beside the error that counts
			return nil, nil, orInterrupt(ctx, merr)
		}
		if r.Cut != nil {
			results.Cut = o.Budget.Cut(i*o.Sets+r.Cut.Done, o.Sets*len(jobs), "sets")
			if r.Cut.Done == 0 {
				break
			}
		}
		judged := r.Judge(c.Fabric == simulator)
		results.Jobs = append(results.Jobs, judged)
		err = collectiveRows(&rows, judged)
	}
	err = errors.Join(err, rows.End(), printCut(out, results.Cut), results.Cut.Nothing())
	return results, c.chart(results), err
}

// time is about how long the jobs take: where ranks share cores, an operation takes a turn of each.
func (c *collectiveOptions) time(jobs []fault.Collective) (all time.Duration) {
	for _, o := range jobs {
		operation := time.Duration(o.Ranks) * 4 * time.Microsecond
		if c.Fabric == simulator {
			operation *= 2
		}
		if c.Unknown {
			all += startTime(o.Ranks) + time.Duration(o.Failures)*(20*time.Millisecond+operation)
			continue
		}
		all += startTime(o.Ranks) + time.Duration(len(o.Lines())*o.Calls*(o.Sets+1))*operation
	}
	return all
}

// starter returns a function that starts a job: in the simulator, or of processes.
func (c *collectiveOptions) starter(bar *progressbar.Bar, to *call, limit budget.Budget) (
	ctx context.Context, stop func(), start func(int, fault.Collective) fault.Start, err error,
) {
	if c.Fabric == simulator {
		if err := alone("fault " + string(c.Op)); err != nil {
			return nil, nil, nil, err
		}
		return context.Background(), func() {}, func(number int, o fault.Collective) fault.Start {
			if c.Unknown {
				return o.SimulatedUnknown(number, uint64(number)+1, nil)
			}
			return o.Simulated(1, nil)
		}, nil
	}
	if err := warnShared(to, c.N, ""); err != nil {
		return nil, nil, nil, err
	}
	processes, err := c.startJobs(to, bar, limit.Export()...)
	if err != nil {
		return nil, nil, nil, err
	}
	ctx, stop = interruptible()
	return ctx, stop, func(number int, _ fault.Collective) fault.Start { return processes(number) }, nil
}

// startJobs returns a function that starts the processes of a job with the arguments of the call.
func (c *collectiveOptions) startJobs(to *call, bar *progressbar.Bar, export ...string) (
	func(number int) fault.Start, error,
) {
	job, err := faultJob(to, c.exitsFlag, bar.Over(to.err), c.N, export...)
	return func(number int) fault.Start {
		job := job
		job.Export = append(slices.Clip(job.Export), fmt.Sprintf("%s=%d", jobEnv, number))
		return job.Start
	}, err
}

// collectiveTable is the table of jobs.
func collectiveTable(out io.Writer, o fault.Collective, virtual bool) table.Table {
	what, unit := string(o.Op), "µs"
	if o.Op != fault.Barrier {
		what += fmt.Sprintf(" of %d bytes", o.Size)
	}
	if o.Rotate {
		what += ", roots in turn"
	}
	if virtual {
		unit = "virtual µs"
	}
	return table.Table{
		W: out, Keys: 4, Title: fmt.Sprintf("# Banyan %s, %d ranks: %s of one operation, median of %d sets of %d; ratio and "+
			"difference against unaware among the living, with 95 %% intervals", what, o.Ranks, unit, o.Sets, o.Calls),
		Columns: []table.Column{{Name: "# Failed", Left: true}, {Name: "Order", Width: 7, Left: true},
			{Name: "Design", Width: 9, Left: true}, {Name: "Tree", Width: 8, Left: true},
			{Name: "Time", Width: 9, Format: "%.2f"}, {Name: "Ratio", Format: "%.3f"}, {Name: "Interval", Width: 11, Joined: true},
			{Name: "Verdict", Width: 9, Left: true, Joined: true},
			{Name: "Difference", Format: "%.2f"}, {Name: "Interval", Width: 15, Joined: true}},
	}
}

// collectiveRows prints the lines of a job.
func collectiveRows(rows *table.Table, j fault.JudgedCollective) error {
	for _, l := range j.Lines {
		o, d, r := j.Options, l.Difference, l.Ratio
		row := []any{o.Failures, o.Kill, l.Design, l.Tree, l.Median / 1e3, "", "", l.Verdict, "", ""}
		if !l.Baseline() {
			row[5], row[6] = r.Median, between("%.3f", "…", r.Low, r.High, few)
			row[8], row[9] = d.Median/1e3, between("%.2f", "…", d.Low/1e3, d.High/1e3, few)
		}
		if err := rows.Row(row...); err != nil {
			return err
		}
	}
	return nil
}

// few replaces a missing interval.
const few = "too few"

// between formats an interval, or few where there is none.
func between(format, to string, low, high float64, few string) string {
	if math.IsInf(high, 0) || math.IsNaN(high) { // NaN is a ratio of two times that are 0
		return few
	}
	return fmt.Sprintf(format+to+format, low, high)
}
