package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/bench/budget"
	"github.com/banyan-hpc/banyan/bench/fault"
	"github.com/banyan-hpc/banyan/bench/figure"
	"github.com/banyan-hpc/banyan/bench/progressbar"
	"github.com/banyan-hpc/banyan/bench/report"
	"github.com/banyan-hpc/banyan/bench/stats"
	"github.com/banyan-hpc/banyan/bench/table"
	"github.com/banyan-hpc/banyan/internal/launch/join"
)

// recoverOptions are those of all operations after a failure.
type recoverOptions struct {
	Op fault.Op `kong:"-"`

	N        []int    `short:"n" type:"ranks" default:"2,4,8,16" placeholder:"RANKS" help:"Numbers of ranks, a job for each, the failed ones included. Default: ${default}."`
	Failures int      `default:"0" placeholder:"RANKS" help:"How many ranks of each job are killed before anything is measured. Default: ${default}."`
	Rounds   int      `default:"40" help:"Rounds: a block of calls and one of the calls that they are compared with. Default: ${default}."`
	Calls    *int     `placeholder:"N" help:"Calls of a block. Default: 100, of shrink 20."`
	Plot     []string `placeholder:"FILE" help:"Draw the times against the number of ranks; .svg or .png, or both with a comma."`
	JSON     string   `placeholder:"FILE" help:"Store all rounds and the environment; -: print them, and the table on standard error."`
	paceFlags
	exitsFlag
}

// files are those of a command on a fabric, as it was given.
func (c *recoverOptions) files(fabric string) outputs { return outputs{c.Plot, c.JSON, fabric} }

type (
	faultAgreeCmd struct {
		recoverOptions
		Fabric anyFabric `placeholder:"LIST" help:"shm, verbs, unix, tcp, or several with commas: the fabrics that may be used, each pair of ranks takes the first that joins it; or sim. Default: BANYAN_FABRIC, else all."`
	}
	faultShrinkCmd struct {
		recoverOptions
		Fabric fabricList `placeholder:"LIST" help:"shm, verbs, unix, tcp, or several with commas: the fabrics that may be used, each pair of ranks takes the first that joins it. Default: BANYAN_FABRIC, else all."`
	}
	faultRevokeCmd struct {
		recoverOptions
		Settle time.Duration `default:"200us" help:"How long the others wait in their barrier before it is revoked: they poll for about 1ms, then they sleep. Default: ${default}."`
		Fabric fabricList    `placeholder:"LIST" help:"shm, verbs, unix, tcp, or several with commas: the fabrics that may be used, each pair of ranks takes the first that joins it. Default: BANYAN_FABRIC, else all."`
	}
)

// inPairs is common to the help texts.
const inPairs = `Measured in turn, in one job; the ratio is the median of the rounds' ratios with its 95 % interval.
With --failures so many ranks are killed with SIGKILL first, at equal distances and rank 0 among
them, and the others acknowledge that. The command starts its ranks itself,
bound to a core each where there are enough.
`

func (faultAgreeCmd) Help() string {
	return `Agree against a reduction and a broadcast of one integer, message by message
along a binomial tree, on the same communicator; with --failures, against agree on a
communicator of the living that was made after the failures.

` + inPairs + `
--fabric sim runs all ranks in this process in virtual time: for how time and messages grow
with the number of ranks. It measures the first agreement (which makes the connections), the next,
and with --failures the first one after the deaths, which finds them, and the next.

Examples:
  ftbench fault agree
  ftbench fault agree -n 4,8,16,32 --json results/agree.json
  ftbench fault agree -n 16 --failures 8
  ftbench fault agree --fabric sim -n 16,128,1024,8192 --plot agree.svg
  ftbench fault agree --fabric sim -n 1024 --failures 100`
}

func (faultShrinkCmd) Help() string {
	return `Shrink against agree on the same communicator. Giving the new communicators back is not
timed, and the memory that they take first has been mapped before.

` + inPairs + `
Examples:
  ftbench fault shrink
  ftbench fault shrink -n 16 --failures 8
  ftbench fault shrink -n 8 --rounds 200 --json results/shrink.json`
}

func (faultRevokeCmd) Help() string {
	return `From the call of Revoke at one rank to the return of the last of the others, which wait in a
barrier, against a barrier. A rank that has returned sleeps for 2 ms and leaves the cores to the others.

The time depends on how the others wait. For about a millisecond they poll and let each other run; then
they sleep, and each wake-up is a system call. The table's title names the way. By default they poll, as
with MPI libraries whose ranks never sleep; with --settle 5ms they sleep.

` + inPairs + `
Examples:
  ftbench fault revoke
  ftbench fault revoke -n 16 --rounds 200
  ftbench fault revoke -n 8 --settle 5ms   # the others sleep`
}

func (c *faultAgreeCmd) Run(to *call) error {
	if c.Fabric == simulator {
		return c.simulate(to)
	}
	return c.run(fault.Recovery{}, fabricList(c.Fabric), to)
}

func (c *faultShrinkCmd) Run(to *call) error { return c.run(fault.Recovery{}, c.Fabric, to) }

func (c *faultRevokeCmd) Run(to *call) error {
	return c.run(fault.Recovery{Settle: c.Settle}, c.Fabric, to)
}

// recoverResults are the results in the JSON file.
type recoverResults struct {
	Fabric string          `json:"fabric"` // as given; "": all
	Jobs   []recoverResult `json:"jobs"`
	Cut    *budget.Cut     `json:"cut,omitempty"` // of --max-time
}

type recoverResult struct {
	*fault.RecoveryResult
	Ratio stats.Interval `json:"ratio"`
}

// of makes the options of a job.
func (c *recoverOptions) of(o fault.Recovery, ranks int) fault.Recovery {
	o.Op, o.Ranks, o.Failures, o.Rounds, o.Calls = c.Op, ranks, c.Failures, c.Rounds, 100
	if c.Op == fault.Shrink {
		o.Calls = 20
	}
	if c.Calls != nil {
		o.Calls = *c.Calls
	}
	c.atMost(&o.Rounds, 6)
	c.atMost(&o.Calls, 20)
	return o
}

func (c *recoverOptions) run(o fault.Recovery, fabrics fabricList, to *call) error {
	if err := c.checkTime(); err != nil {
		return err
	}
	o.Budget = c.budget()
	for _, n := range c.N {
		if err := c.of(o, n).Check(); err != nil {
			return usage(err)
		}
	}
	if join.Started() {
		return faultRank(string(c.Op), func(w *banyan.World) error {
			return c.of(o, w.Comm().Size()).Rank(w, to.out)
		}, fabrics)
	}
	files := c.files(string(fabrics))
	if err := files.check(); err != nil {
		return err
	}
	file := report.Begin("fault-" + string(c.Op))
	results, err := c.measure(o, to)
	if err != nil {
		return err
	}
	results.Fabric = string(fabrics)
	return files.keep(file, results, recoverCharts(c.Op, results), to)
}

// measure runs a job for each number of ranks and prints the table.
func (c *recoverOptions) measure(o fault.Recovery, to *call) (*recoverResults, error) {
	ctx, stop := interruptible()
	defer stop()
	if err := warnShared(to, slices.Max(c.N), ""); err != nil {
		return nil, err
	}
	sample := c.of(o, c.N[0])
	announce(to.err, "fault "+string(c.Op), c.time(o), c.MaxTime)
	bar := progressbar.Start(to.err, "fault "+string(c.Op), sample.Rounds*len(c.N))
	defer bar.Stop()
	out := bar.Over(to.words(c.JSON).out)
	rows := c.table(out, o)
	if err := rows.Begin(); err != nil {
		return nil, err
	}
	results := &recoverResults{}
	for i, n := range c.N {
		if o.Budget.Over() {
			results.Cut = o.Budget.Cut(i*sample.Rounds, sample.Rounds*len(c.N), "rounds")
			break
		}
		job, err := faultJob(to, c.exitsFlag, bar.Over(to.err), n, o.Budget.Export()...)
		if err != nil {
			return nil, err
		}
		bar.Note(fmt.Sprintf("%d ranks", n))
		r, err := c.of(o, n).Measure(ctx, job.Start, out, func() { bar.Step(1) })
		if err != nil {
			return nil, orInterrupt(ctx, err)
		}
		if r.Cut != nil {
			results.Cut = o.Budget.Cut(i*sample.Rounds+r.Cut.Done, sample.Rounds*len(c.N), "rounds")
		}
		if len(r.Ratios) == 0 {
			break
		}
		result := recoverResult{r, stats.MedianInterval(r.Ratios)}
		results.Jobs = append(results.Jobs, result)
		if err := recoverRow(&rows, result); err != nil {
			return nil, err
		}
	}
	return results, errors.Join(rows.End(), printCut(out, results.Cut), results.Cut.Nothing())
}

// time is about how long all jobs take: where ranks share cores, a call takes a turn of each.
func (c *recoverOptions) time(o fault.Recovery) (all time.Duration) {
	for _, n := range c.N {
		o := c.of(o, n)
		call := time.Duration(n) * 10 * time.Microsecond
		switch c.Op {
		case fault.Shrink:
			call *= 4
		case fault.Revoke:
			all += time.Duration(o.Rounds) * (o.Settle + 10*time.Millisecond)
		}
		all += startTime(n) + time.Duration(2*o.Rounds*o.Calls)*call
	}
	return all
}

// table has a row for each number of ranks.
func (c *recoverOptions) table(out io.Writer, o fault.Recovery) table.Table {
	sample := c.of(o, c.N[0])
	return table.Table{
		W: out, Keys: 2, Title: fmt.Sprintf("# Banyan %s against %s, µs; %d rounds of %d calls%s", c.Op,
			cmp.Or(c.against(), sample.Against()), sample.Rounds, sample.Calls, sample.Waiting()),
		Columns: []table.Column{{Name: "# Ranks", Left: true}, {Name: "Failed"}, {Name: "P50", Width: 8, Format: "%.2f"},
			{Name: "P90", Width: 8, Format: "%.2f"}, {Name: "P99", Width: 8, Format: "%.2f"},
			{Name: "Baseline", Format: "%.2f"}, {Name: "Ratio", Width: 6, Format: "%.3f"},
			{Name: "95 % interval", Left: true, Joined: true}},
	}
}

// against names the baseline of agree after failures, for all numbers of ranks.
func (c *recoverOptions) against() string {
	if c.Op == fault.Agree && c.Failures > 0 {
		return "agree of the living"
	}
	return ""
}

// recoverRow prints a line of the table.
func recoverRow(rows *table.Table, r recoverResult) error {
	us := func(d time.Duration) float64 { return float64(d) / 1e3 }
	return rows.Row(r.Options.Ranks, r.Options.Failures, us(r.Calls.P50), us(r.Calls.P90), us(r.Calls.P99),
		us(r.Baseline.P50), r.Ratio.Median, between("%.3f", "–", r.Ratio.Low, r.Ratio.High, "too few rounds"))
}

// recoverCharts draw the medians, and the ratio with its interval, against the number of ranks.
func recoverCharts(op fault.Op, r *recoverResults) []figure.Chart {
	mine, base, ratio := figure.Series{Name: string(op)}, figure.Series{}, figure.Series{}
	for _, job := range r.Jobs {
		x := float64(job.Options.Ranks)
		mine.Points = append(mine.Points, figure.Point{X: x, Y: float64(job.Calls.P50) / 1e3})
		base.Points = append(base.Points, figure.Point{X: x, Y: float64(job.Baseline.P50) / 1e3})
		base.Name, ratio.Name = job.Against, string(op)+" over "+job.Against
		ratio.Points = append(ratio.Points, figure.Estimate(x, job.Ratio, nil))
	}
	ranks := figure.Axis{Title: "ranks", Unit: figure.Doubling}
	return []figure.Chart{{
		Title: "Banyan " + string(op), X: ranks, Y: figure.Axis{Title: "median time (µs)"},
		Series: []figure.Series{mine, base},
	}, {
		Title: "Ratio over the rounds, with 95 % intervals", X: ranks,
		Y: figure.Axis{Title: "ratio", Unit: figure.Linear}, Series: []figure.Series{ratio},
	}}
}

// simulate runs jobs in virtual time.
func (c *faultAgreeCmd) simulate(to *call) error {
	if os.Getenv(startedBy) != "" || join.Started() {
		return usagef("fault agree: --fabric sim is for one process alone")
	}
	files := c.files(simulator)
	if err := files.check(); err != nil {
		return err
	}
	file := report.Begin("fault-agree-sim")
	bar := progressbar.Start(to.err, "fault agree", len(c.N))
	defer bar.Stop()
	out := bar.Over(to.words(c.JSON).out)
	rows := table.Table{
		W: out, Keys: 2, Title: "# Banyan agree, simulated: virtual µs until the last rank has returned, and messages",
		Columns: []table.Column{{Name: "# Ranks", Left: true}, {Name: "Failed"}, {Name: "2(living-1)"},
			{Name: "Messages", Width: 9}, {Name: "Time", Width: 11, Format: "%.2f"}, {Name: "Agreement", Left: true}},
	}
	if err := rows.Begin(); err != nil {
		return err
	}
	all := agreeSimResults{Points: []fault.AgreePoint{}}
	limit := c.budget()
	for i, n := range c.N {
		if limit.Over() && i > 0 {
			all.Cut = limit.Cut(i, len(c.N), "numbers of ranks")
			break
		}
		bar.Note(fmt.Sprintf("%d ranks", n))
		points, err := fault.SimulateAgree(n, c.Failures, 1)
		if err != nil {
			return err
		}
		for _, p := range points {
			if err := rows.Row(p.Ranks, p.Failed, 2*(p.Ranks-p.Failed-1), p.Messages, float64(p.Time)/1e3, p.What); err != nil {
				return err
			}
		}
		all.Points = append(all.Points, points...)
		bar.Step(1)
	}
	if err := cmp.Or(rows.End(), printCut(out, all.Cut)); err != nil {
		return err
	}
	return files.keep(file, all, simChart(all.Points), to)
}

// agreeSimResults are the results in the JSON file of a simulation.
type agreeSimResults struct {
	Points []fault.AgreePoint `json:"points"`
	Cut    *budget.Cut        `json:"cut,omitempty"` // of --max-time
}

// simNote explains the line after failures.
const simNote = "After failures: a rank whose parent and grandparent died learns of the second only now; " +
	"detection takes 20 to 500 µs."

// simChart draws the times against the number of ranks, a line for each kind of agreement.
func simChart(points []fault.AgreePoint) []figure.Chart {
	var lines seriesByName
	for _, p := range points {
		lines.add(p.What, float64(p.Ranks), max(1e-3, float64(p.Time)/1e3))
	}
	return []figure.Chart{{
		Title: "Banyan agree, simulated", X: figure.Axis{Title: "ranks", Unit: figure.Doubling},
		Y: figure.Axis{Title: "virtual time (µs)"}, Series: lines.list, Note: simNote,
	}}
}
