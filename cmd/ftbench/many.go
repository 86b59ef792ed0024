package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/bench/budget"
	"github.com/banyan-hpc/banyan/bench/figure"
	"github.com/banyan-hpc/banyan/bench/many"
	"github.com/banyan-hpc/banyan/bench/peers"
	"github.com/banyan-hpc/banyan/bench/progressbar"
	"github.com/banyan-hpc/banyan/bench/report"
	"github.com/banyan-hpc/banyan/bench/stats"
	"github.com/banyan-hpc/banyan/bench/table"
	"github.com/banyan-hpc/banyan/internal/launch/join"
)

type manyCmd struct {
	Ranks   []int      `short:"n" type:"ranks" default:"2,4,8,16,32,64" placeholder:"RANKS" help:"Numbers of ranks. Default: ${default}."`
	Sizes   []int      `default:"8,4096,65536" placeholder:"BYTES" help:"Sizes of the messages; the first is that of the first contact. Default: ${default}."`
	Jobs    int        `default:"5" help:"Fresh jobs of each number of ranks; their median counts. Default: ${default}."`
	Repeats int        `default:"20" help:"All-to-alls of a size after the second one; their median is the steady time. Default: ${default}."`
	Fabric  fabricList `placeholder:"LIST" help:"shm, verbs, unix, tcp, or several with commas: the fabrics that may be used, each pair of ranks takes the first that joins it. Default: BANYAN_FABRIC, else all."`
	Plot    []string   `placeholder:"FILE" help:"Draw times and memory against the number of ranks; .svg or .png, or both with a comma."`
	JSON    string     `placeholder:"FILE" help:"Store all samples and the environment; -: print them, and the tables on standard error."`
	paceFlags
}

func (manyCmd) Help() string {
	return `What many ranks cost each other with messages: each receives from all others and sends
to all others at once, after a barrier. First is the first all-to-all of a size, which
with the first size makes the connections (first contact); steady is the median of
those after the second. The slowest rank counts. Each job is fresh; the values are the
medians of the jobs. The second table has the processor time of a directed pair of
ranks in the first contact, the growth of the node's shared memory (Shmem in
/proc/meminfo, which other programs disturb), and the resident memory of rank 0 before
the first message, after the first contact and at its peak. The command starts its
ranks itself.

Examples:
  ftbench many
  ftbench many --ranks 16,64,128 --plot results/many.svg
  ftbench many --quick --ranks 2,4 --fabric tcp --sizes 8,4096 --json results/many.json`
}

// manyJobs is a number of ranks.
type manyJobs struct {
	Ranks   int            `json:"ranks"`
	Samples []*many.Sample `json:"samples"`
}

// manyResults are the results in the JSON file.
type manyResults struct {
	Fabric  string       `json:"fabric"` // as given; "": all
	Options many.Options `json:"options"`
	Ranks   []manyJobs   `json:"ranks"`
	Cut     *budget.Cut  `json:"cut,omitempty"` // of --max-time
}

// median is that of a value of the samples.
func (j manyJobs) median(of func(*many.Sample) float64) float64 { return stats.Median(j.values(of)) }

func (j manyJobs) values(of func(*many.Sample) float64) (out []float64) {
	for _, s := range j.Samples {
		out = append(out, of(s))
	}
	return out
}

func (c *manyCmd) Run(to *call) error {
	c.atMost(&c.Jobs, 2)
	c.atMost(&c.Repeats, 5)
	o := many.Options{Sizes: c.Sizes, Repeats: c.Repeats}
	if err := cmp.Or(c.check(), o.Check()); err != nil {
		return usage(err)
	}
	files := outputs{c.Plot, c.JSON, string(c.Fabric)}
	if err := files.check(); err != nil {
		return err
	}
	file := report.Begin("many")
	results, err := c.measure(o, to)
	if err != nil {
		return err
	}
	return files.keep(file, results, manyCharts(results), to)
}

// check finds options that make no sense.
func (c *manyCmd) check() error {
	if join.Started() {
		return fmt.Errorf("many: it starts its ranks itself: run it alone, not in another launcher's job")
	}
	for _, n := range c.Ranks {
		if n < 2 || n > many.MaxRanks {
			return fmt.Errorf("many: %d ranks: 2 to %d are possible", n, many.MaxRanks)
		}
	}
	if c.Jobs < 1 {
		return fmt.Errorf("many: %d jobs: at least 1 is needed", c.Jobs)
	}
	return c.checkTime()
}

// measure runs the jobs and prints the tables.
func (c *manyCmd) measure(o many.Options, to *call) (*manyResults, error) {
	limit := c.budget()
	ctx, stop := interruptible()
	defer stop()
	self, err := selfPath()
	if err != nil {
		return nil, err
	}
	if err := warnShared(to, slices.Max(c.Ranks), ""); err != nil {
		return nil, err
	}
	announce(to.err, "many", c.time(), c.MaxTime)
	bar := progressbar.Start(to.err, "many", len(c.Ranks)*c.Jobs)
	defer bar.Stop()
	out := bar.Over(to.words(c.JSON).out)
	rows := manyTable(out, c.Jobs)
	if err := rows.Begin(); err != nil {
		return nil, err
	}
	results := &manyResults{Fabric: string(c.Fabric), Options: o, Ranks: []manyJobs{}}
	for i, n := range c.Ranks {
		bar.Note(fmt.Sprintf("%d ranks", n))
		jobs := manyJobs{Ranks: n}
		for len(jobs.Samples) < c.Jobs && !limit.Over() {
			s, err := many.Measure(ctx, n, o, c.program(self))
			if err != nil {
				return nil, orInterrupt(ctx, err)
			}
			jobs.Samples = append(jobs.Samples, s)
			bar.Step(1)
		}
		if len(jobs.Samples) > 0 {
			results.Ranks = append(results.Ranks, jobs)
			if err := manyRows(&rows, jobs); err != nil {
				return nil, err
			}
		}
		if len(jobs.Samples) < c.Jobs {
			results.Cut = limit.Cut(i*c.Jobs+len(jobs.Samples), len(c.Ranks)*c.Jobs, "jobs")
			break
		}
	}
	return results, cmp.Or(results.Cut.Nothing(), rows.End(), manyCosts(out, results.Ranks), printCut(out, results.Cut))
}

// program starts the ranks.
func (c *manyCmd) program(self string) peers.Program {
	return func(n int, args []string) peers.Command {
		argv := []string{self, "run", "-n", strconv.Itoa(n), "--on-failure", "abort"}
		if c.Fabric != "" {
			argv = append(argv, "--fabric", string(c.Fabric))
		}
		return peers.Command{Argv: append(append(argv, "--", self, "crowd"), args...), CPU: -1}
	}
}

// time is about how long all jobs take: ranks share cores.
func (c *manyCmd) time() (all time.Duration) {
	for _, n := range c.Ranks {
		pairs := time.Duration(n * n)
		all += time.Duration(c.Jobs) * (startTime(n) + pairs*(100+time.Duration(len(c.Sizes)*c.Repeats*10))*time.Microsecond)
	}
	return all
}

// manyTable has a row for each number of ranks and size.
func manyTable(out io.Writer, jobs int) table.Table {
	return table.Table{
		W: out, Keys: 2, Title: fmt.Sprintf("# Banyan all-to-all of messages, µs; median of %d jobs", jobs),
		Columns: []table.Column{{Name: "# Ranks", Left: true}, {Name: "Bytes", Width: 6},
			{Name: "First", Width: 10, Format: "%.1f"}, {Name: "Least", Width: 10, Format: "%.1f"},
			{Name: "Most", Width: 10, Format: "%.1f"}, {Name: "Second", Width: 9, Format: "%.1f"},
			{Name: "Steady", Width: 9, Format: "%.1f"}, {Name: "Messages/s", Format: "%.0f"}},
	}
}

func manyRows(rows *table.Table, jobs manyJobs) error {
	for i, t := range jobs.Samples[0].Times {
		first := jobs.values(func(s *many.Sample) float64 { return 1e6 * s.Times[i].First })
		steady := jobs.median(func(s *many.Sample) float64 { return s.Times[i].Steady })
		if err := rows.Row(jobs.Ranks, t.Size, stats.Median(first), slices.Min(first), slices.Max(first),
			jobs.median(func(s *many.Sample) float64 { return 1e6 * s.Times[i].Second }), 1e6*steady,
			float64(jobs.Ranks*(jobs.Ranks-1))/steady); err != nil {
			return err
		}
	}
	return nil
}

// manyCosts prints the costs of the ranks beside time.
func manyCosts(out io.Writer, all []manyJobs) error {
	t := table.Table{
		W: out, Keys: 1, Title: "\n# Processor time of a pair (µs); memory of the node and of rank 0 (MiB)",
		Columns: []table.Column{{Name: "# Ranks", Left: true}, {Name: "CPU/pair", Format: "%.1f"},
			{Name: "Shmem", Width: 8, Format: "%.1f"}, {Name: "RSS before", Format: "%.1f"},
			{Name: "RSS after", Format: "%.1f"}, {Name: "RSS peak", Format: "%.1f"}},
	}
	if err := t.Begin(); err != nil {
		return err
	}
	for _, jobs := range all {
		mib := func(of func(*many.Sample) float64) float64 { return jobs.median(of) / (1 << 20) }
		if err := t.Row(jobs.Ranks, 1e6*jobs.median(func(s *many.Sample) float64 { return s.Processor }),
			mib(sharedOf), mib(func(s *many.Sample) float64 { return s.Before }),
			mib(func(s *many.Sample) float64 { return s.After }), mib(peakOf)); err != nil {
			return err
		}
	}
	return t.End()
}

func sharedOf(s *many.Sample) float64 { return s.Shared }
func peakOf(s *many.Sample) float64   { return s.Peak }

// manyCharts draw times, and memory, against the number of ranks.
func manyCharts(r *manyResults) []figure.Chart {
	var times, memory seriesByName
	for _, jobs := range r.Ranks {
		x := float64(jobs.Ranks)
		for i, t := range jobs.Samples[0].Times {
			if i == 0 {
				times.add(fmt.Sprintf("first contact, %d bytes", t.Size), x,
					1e6*jobs.median(func(s *many.Sample) float64 { return s.Times[i].First }))
			}
			times.add(fmt.Sprintf("steady, %d bytes", t.Size), x,
				1e6*jobs.median(func(s *many.Sample) float64 { return s.Times[i].Steady }))
		}
		for name, of := range map[string]func(*many.Sample) float64{"shared memory of the node": sharedOf,
			"peak of rank 0": peakOf} {
			if mib := jobs.median(of) / (1 << 20); mib > 0 {
				memory.add(name, x, mib)
			}
		}
	}
	slices.SortFunc(memory.list, func(a, b figure.Series) int { return cmp.Compare(a.Name, b.Name) })
	ranks := figure.Axis{Title: "ranks", Unit: figure.Doubling}
	charts := []figure.Chart{{Title: "All-to-all of messages", X: ranks, Y: figure.Axis{Title: "median time (µs)"},
		Series: times.list}}
	if len(memory.list) > 0 {
		charts = append(charts, figure.Chart{Title: "Memory after all-to-alls of messages", X: ranks,
			Y: figure.Axis{Title: "memory (MiB)"}, Series: memory.list})
	}
	return charts
}

// crowdCmd is one rank of a job that measures as bench/peers/mpi/many.c does.
type crowdCmd struct {
	File    string `arg:"" help:"To which rank 0 appends the sample."`
	Repeats int    `arg:"" help:"All-to-alls of a size after the second one."`
	Sizes   []int  `arg:"" help:"Bytes of a message."`
}

func (c *crowdCmd) Run() error {
	return inJob(true, func(w *banyan.World) error {
		s, err := many.Run(w, many.Options{Sizes: c.Sizes, Repeats: c.Repeats})
		if err != nil || s == nil {
			return err
		}
		return s.Write(c.File)
	})
}
