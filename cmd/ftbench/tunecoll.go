package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/bench/budget"
	"github.com/banyan-hpc/banyan/bench/osu"
	"github.com/banyan-hpc/banyan/bench/progressbar"
	"github.com/banyan-hpc/banyan/bench/report"
	"github.com/banyan-hpc/banyan/bench/stats"
	"github.com/banyan-hpc/banyan/bench/table"
	"github.com/banyan-hpc/banyan/bench/tune"
	"github.com/banyan-hpc/banyan/coll/choose"
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/internal/launch/join"
	"github.com/banyan-hpc/banyan/internal/settings"
	"github.com/banyan-hpc/banyan/internal/wholefile"
)

// tuneCmds are the subjects of tuning; without a word it is the thresholds of shared memory.
type tuneCmds struct {
	Shm  tuneCmd     `cmd:"" default:"withargs" help:"Find the thresholds that suit this machine; write them to a file."`
	Coll tuneCollCmd `cmd:"" help:"Measure the algorithms of collectives; write a table that chooses among them."`
}

func (tuneCmds) Help() string {
	return `Without a word it is tune shm, with its flags. Other programs on these cores spoil what
is measured: run it on an idle machine.

Examples:
  ftbench tune
  ftbench tune shm --quick --dry-run
  ftbench tune coll -n 8 --out coll.table`
}

type tuneCollCmd struct {
	N       int           `short:"n" type:"ranks" default:"2" placeholder:"RANKS" help:"Number of ranks that are started. Default: ${default}."`
	Only    []string      `placeholder:"OPERATION" help:"Operations, with commas: barrier, bcast, reduce, allreduce, gather, scatter, allgather, allgatherv, alltoall, reduce_scatter_block, scan. Default: all."`
	Sizes   string        `short:"m" default:"8:1048576" placeholder:"[MIN:]MAX" help:"Sizes in bytes, as of ftbench osu. Default: ${default}."`
	Step    int           `default:"4" placeholder:"FACTOR" help:"From one size to the next. Default: ${default}."`
	Rounds  int           `default:"15" help:"How often the algorithms are measured in turn; 6 at least for an interval. Default: ${default}."`
	Sample  time.Duration `default:"10ms" help:"Duration of one measurement of an algorithm. Default: ${default}."`
	Ranks   string        `placeholder:"RANGE" help:"For which numbers of ranks the rules hold: N, N.., ..N or N..M. Default: that of the job."`
	PerNode int           `placeholder:"RANKS" help:"Of --fabric sim: ranks on a node. Default: all."`
	Out     string        `placeholder:"FILE" help:"Write the table to a file, for coll.algorithms or BANYAN_COLL_ALGORITHMS. Default: print it."`
	Plot    []string      `placeholder:"FILE" help:"Draw the times against sizes, with the chosen algorithms; .svg or .png, or both with a comma."`
	JSON    string        `placeholder:"FILE" help:"Store all times and the environment; -: print them, and the tables on standard error."`
	fabricFlags
	paceFlags
}

func (tuneCollCmd) Help() string {
	return `Measures each algorithm of each collective that the ranks have, in turn, in one job, and
prints a table of those that are faster than the default by 3 % or more, significantly so
(95 % interval of the rounds' ratios), and are so once more on new communicators. Programs
take it by coll.algorithms, by BANYAN_COLL_ALGORITHMS or by WithAlgorithms; docs/tuning.md has
the format, and a table may be written by hand or put together of several.

It starts its ranks itself, or is the program of a job of ftbench run or another launcher, for
several nodes. --fabric sim measures in virtual time, where nothing is shared in memory.

Examples:
  ftbench tune coll -n 8
  ftbench tune coll -n 8 --quick --only bcast,allreduce --out coll.table --plot coll.svg
  BANYAN_COLL_ALGORITHMS=coll.table ftbench osu bcast -n 8
  ftbench run -n 16 --netns 2 -- ftbench tune coll --only barrier,bcast
  ftbench tune coll -n 64 --per-node 16 --fabric sim --only bcast,allreduce`
}

// tuneCollResults are the results in the JSON file.
type tuneCollResults struct {
	Fabric  string                 `json:"fabric"`
	Ranks   int                    `json:"ranks"`
	Options tune.CollectiveOptions `json:"options"`
	Points  []tune.CollectivePoint `json:"points"`
	Table   string                 `json:"table"`
	Cut     *budget.Cut            `json:"cut,omitempty"` // of --max-time
}

// options checks the flags.
func (c *tuneCollCmd) options() (o tune.CollectiveOptions, err error) {
	if err := c.checkTime(); err != nil {
		return o, err
	}
	c.atMost(&c.Rounds, 7)
	c.shorter(&c.Sample, 3*time.Millisecond)
	c.Step = max(c.Step, map[bool]int{true: 16, false: 2}[c.Quick])
	o = tune.CollectiveOptions{Rounds: c.Rounds, Sample: c.Sample}
	for _, word := range c.Only {
		op, err := choose.ParseOp(word)
		if err != nil {
			return o, usagef("tune coll: --only: %v", err)
		}
		o.Ops = append(o.Ops, op)
	}
	if slices.Sort(o.Ops); len(o.Ops) == 0 {
		for op := range choose.NumOps {
			o.Ops = append(o.Ops, op)
		}
	}
	low, high := 1, 0
	if err := parseSizes(c.Sizes, &low, &high); err != nil {
		return o, err
	}
	for size := max(1, low); size <= high; size *= c.Step {
		o.Sizes = append(o.Sizes, size)
	}
	switch {
	case len(o.Sizes) == 0:
		return o, usagef("tune coll: -m %s has no size: MIN:MAX is needed, with MIN up to MAX", c.Sizes)
	case c.Rounds < 1 || c.Sample <= 0:
		return o, usagef("tune coll: --rounds %d and --sample %v: both above 0 are needed", c.Rounds, c.Sample)
	case c.PerNode < 0 || c.PerNode > 0 && !c.simulated():
		return o, usagef("tune coll: --per-node %d: it is for --fabric sim; real ranks are where a launcher has put them", c.PerNode)
	}
	if c.Ranks != "" {
		if _, err := choose.ParseRange(c.Ranks); err != nil {
			return o, usagef("tune coll: --ranks: %v", err)
		}
	}
	for _, op := range o.Ops {
		if b := osu.Find(op.String()); op.Sized() && !b.Holds(high) {
			return o, usagef("tune coll: -m %s: not even %d bytes hold an element of %v", c.Sizes, high, op)
		}
	}
	return o, c.files().check()
}

func (c *tuneCollCmd) files() outputs { return outputs{c.Plot, c.JSON, string(c.Fabric)} }

// Run measures, or is a rank of a job that does.
func (c *tuneCollCmd) Run(to *call) error {
	o, err := c.options()
	if err == nil {
		err = checkFiles(c.Out)
	}
	if err != nil {
		return err
	}
	measure := func(w *banyan.World) error { return c.measure(w, o, to) }
	if c.simulated() {
		if err := alone("tune coll"); err != nil {
			return err
		}
		o.Budget = c.budget()
		nodes := func(cfg *sim.Config) {
			if cfg.Topology.ProcsPerNode = c.N; c.PerNode > 0 {
				cfg.Topology.ProcsPerNode = c.PerNode
			}
		}
		return banyan.Simulate(c.N, banyan.Simulation{Configure: nodes}, measure)
	}
	if join.Started() {
		o.Budget = c.budget()
		return inJob(true, measure, c.fabricFlags.options()...)
	}
	rows := 0
	for _, op := range o.Ops {
		rows += max(1, map[bool]int{true: len(o.Sizes)}[op.Sized()])
	}
	announce(to.err, "tune coll", time.Duration(rows)*time.Duration(5*(o.Rounds+2))*o.Sample, c.MaxTime)
	bar := progressbar.Start(to.err, "tune coll", rows)
	defer bar.Stop()
	return startSelf(c.N, watched(to, bar, c.JSON))
}

// measure measures as a rank, of which the first prints.
func (c *tuneCollCmd) measure(w *banyan.World, o tune.CollectiveOptions, to *call) error {
	file, first, ranks := report.Begin("tune coll"), w.Comm().Rank() == 0, w.Comm().Size()
	if ranks < 2 {
		return usagef("tune coll: the job has one rank, at least 2 are needed: start it with -n 2")
	}
	rows := tuneCollTable(to.words(c.JSON))
	if first {
		rows.Title = fmt.Sprintf("# %d ranks, %s", ranks, settings.Machine())
		if err := rows.Begin(); err != nil {
			return err
		}
	}
	points, cut, err := tune.Collectives(w, o, func(p tune.CollectivePoint) error { return printPoint(&rows, p) })
	if err != nil || !first {
		return err
	}
	results := tuneCollResults{Ranks: ranks, Options: o, Points: points}
	if cut {
		all := 0
		for _, op := range o.Ops {
			all += max(1, map[bool]int{true: len(o.Sizes)}[op.Sized()])
		}
		results.Cut = o.Budget.Cut(len(points), all, "sizes")
		if err := printCut(to.words(c.JSON).out, results.Cut); err != nil {
			return err
		}
	}
	if results.Fabric, err = c.used(w); err != nil {
		return err
	}
	at := tune.PlaceOf(w)
	if c.Ranks != "" {
		at.Ranks, _ = choose.ParseRange(c.Ranks) // checked
	}
	results.Table = tune.TableText(c.comments(file, &results), tune.Rules(at, points))
	if err := c.write(results.Table, to.words(c.JSON)); err != nil {
		return err
	}
	return c.files().keep(file, results, tune.CollectiveCharts(ranks, points), to)
}

// comments describe the source of a table.
func (c *tuneCollCmd) comments(file *report.File, r *tuneCollResults) []string {
	e := &file.Environment
	out := []string{
		fmt.Sprintf("by ftbench tune coll on %s, host %s, in %.0f s: %d ranks, %s", file.Started.Format(time.DateTime), e.Host,
			time.Since(file.Started).Seconds(), r.Ranks, r.Fabric),
		fmt.Sprintf("%s, Linux %s, %s", settings.Machine(), e.Kernel, e.Go),
	}
	if e.Revision != "" {
		out = append(out, fmt.Sprintf("Banyan %.12s", e.Revision))
	}
	return out
}

// write stores the table, or prints it.
func (c *tuneCollCmd) write(text string, to *call) error {
	if _, err := choose.Parse("table", text); err != nil {
		return fmt.Errorf("tune coll: the table that was made is wrong: %w", err)
	}
	fmt.Fprintln(to.out)
	if c.Out == "" {
		_, err := fmt.Fprint(to.out, text)
		return err
	}
	if err := wholefile.Write(c.Out, []byte(text), 0o644); err != nil {
		return err
	}
	_, err := fmt.Fprintf(to.out, "written: %s; %s=%s takes it\n", c.Out, settings.Of(settings.CollAlgorithms).Variable(), c.Out)
	if now := os.Getenv(settings.Of(settings.CollAlgorithms).Variable()); err == nil && now != "" && now != c.Out {
		_, err = fmt.Fprintf(to.out, "  but %s=%s is set\n", settings.Of(settings.CollAlgorithms).Variable(), now)
	}
	return err
}

// tuneCollTable has a row for each operation and size.
func tuneCollTable(to *call) table.Table {
	return table.Table{W: to.out, Columns: []table.Column{
		{Name: "# operation", Width: 20, Left: true}, {Name: "bytes", Width: 8}, {Name: "default", Width: 13, Left: true},
		{Name: "chosen", Width: 13, Left: true}, {Name: "ratio", Format: "%.3f"}, {Name: "95 % interval", Width: 15, Left: true},
		{Name: "µs", Left: true},
	}}
}

func printPoint(rows *table.Table, p tune.CollectivePoint) error {
	var times []string
	for _, way := range p.Ways {
		times = append(times, way.Algorithm+" "+stats.Text("%.4g", 1e6*way.Seconds))
	}
	way := p.Way(p.Chosen)
	interval := "too few"
	if way.Low > 0 {
		interval = fmt.Sprintf("%.3f … %.3f", way.Low, way.High)
	}
	return rows.Row(p.Name, p.Size, p.Default, p.Chosen, way.Ratio, interval, strings.Join(times, ", "))
}
