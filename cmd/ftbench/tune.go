package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/banyan-hpc/banyan/bench/budget"
	"github.com/banyan-hpc/banyan/bench/compare/suite"
	"github.com/banyan-hpc/banyan/bench/progressbar"
	"github.com/banyan-hpc/banyan/bench/report"
	"github.com/banyan-hpc/banyan/bench/table"
	"github.com/banyan-hpc/banyan/bench/tune"
	"github.com/banyan-hpc/banyan/internal/launch/join"
	"github.com/banyan-hpc/banyan/internal/settings"
	"github.com/banyan-hpc/banyan/internal/wholefile"
)

type tuneCmd struct {
	Fabric string        `enum:"shm" default:"shm" help:"Settings to tune: ${enum}."`
	Out    string        `placeholder:"FILE" help:"Where the settings go. Default: the user's tune.conf, or the file that BANYAN_TUNING names."`
	DryRun bool          `help:"Print the file instead of writing it."`
	Quick  bool          `help:"Fewer sizes and pairs: a quarter of a minute instead of two, and only large gains are found."`
	Sample time.Duration `default:"15ms" help:"Duration of one sample. Shorter samples take less time and decide less. Default: ${default}."`
	maxTimeFlag
	JSON string `placeholder:"FILE" help:"Store all rows and the environment; -: print them, and the table on standard error."`
}

func (tuneCmd) Help() string {
	return `Finds the thresholds with which this machine is fastest and writes them into a file
that every program reads when it starts (docs/tuning.md). Two ranks on two cores are
measured in interleaved pairs, latency and bandwidth, with a bare cache-line
ping-pong beside each sample that tells how far apart the cores are at the moment. A
default is kept unless another value is faster by 3 % or more, significantly so, and
again with fresh processes. Other programs on these cores spoil the pairs: run it on
an idle machine.

The file keeps what it has of other machines and of knobs that are not measured.
ftbench info shows what holds.

Examples:
  ftbench tune
  ftbench tune --quick --dry-run
  sudo ftbench tune --out /etc/banyan/tune.conf
  ftbench tune --out mine.conf && BANYAN_TUNING=mine.conf ftbench run -n 2 -- ./app`
}

// tuneResults are the results in the JSON file.
type tuneResults struct {
	Machine  string         `json:"machine"`
	CPUs     [2]int         `json:"cpus"`
	Busy     float64        `json:"busy"`
	Tried    []tune.Tried   `json:"tried"`
	Findings []tune.Finding `json:"findings"`
	Cut      *budget.Cut    `json:"cut,omitempty"` // of --max-time: the file keeps its values of the other knobs
}

// Run measures and writes the file.
func (c *tuneCmd) Run(to *call) error {
	if err := c.checkTime(); err != nil {
		return err
	}
	if c.Sample <= 0 {
		return usagef("tune: --sample %v: a time above 0 is needed", c.Sample)
	}
	if join.Started() {
		return errors.New("tune: it starts its ranks itself: run it alone, not as a rank of a job")
	}
	path, err := c.path()
	if err != nil {
		return err
	}
	// A file that cannot be written later is an error now.
	if _, err := settings.Merged(path, &settings.Part{Machine: settings.Machine()}); err != nil {
		return err
	}
	files := []string{path, c.JSON}
	if c.DryRun {
		files = files[1:]
	}
	if err := checkFiles(files...); err != nil {
		return err
	}
	ctx, stop := interruptible()
	defer stop()
	file := report.Begin("tune")
	bench, err := tune.OpenBench(ctx, c.Quick, c.Sample)
	if err != nil {
		return orInterrupt(ctx, err)
	}
	results := tuneResults{Machine: settings.Machine(), CPUs: bench.CPUs, Busy: bench.Busy, Tried: []tune.Tried{}}
	words := to.words(c.JSON)
	err = errors.Join(orInterrupt(ctx, c.measure(ctx, bench, &results, words)), bench.Close())
	if err != nil {
		return err
	}
	if err := to.store(file, c.JSON, results); err != nil {
		return err
	}
	return c.write(path, part(&results, file), words)
}

// path is where the file goes.
func (c *tuneCmd) path() (string, error) {
	if c.Out != "" {
		return c.Out, nil
	}
	if named := os.Getenv(settings.FileVariable); named != "" && named != settings.NoFile {
		return named, nil
	}
	if path := settings.UserFile(); path != "" {
		return path, nil
	}
	return "", errors.New("tune: there is no home directory: give a file with --out")
}

// measure runs the tuner and prints its trials.
func (c *tuneCmd) measure(ctx context.Context, bench *tune.Bench, results *tuneResults, to *call) error {
	t := tune.Tuner{Measure: bench.Measure, Quick: c.Quick}
	limit := c.budget()
	ctx, free := limit.Context(ctx)
	defer free()
	announce(to.err, "tune", c.time(t.Trials()), c.MaxTime)
	bar := progressbar.Start(to.err, "tune", t.Trials())
	defer bar.Stop()
	out := bar.Over(to.out)
	rows := tuneTable(out)
	rows.Title = fmt.Sprintf("# %s, ranks on CPUs %d and %d", results.Machine, bench.CPUs[0], bench.CPUs[1])
	if bench.Busy > suite.BusyAbove {
		rows.Title += fmt.Sprintf("\n# others take %.0f %% of these CPUs: little will be significant; stop them first",
			100*bench.Busy)
	}
	if err := rows.Begin(); err != nil {
		return err
	}
	var lost error // the first write that failed
	t.Progress = func(tried tune.Tried) {
		results.Tried = append(results.Tried, tried)
		lost = cmp.Or(lost, printTried(&rows, tried))
		if !tried.Confirms {
			bar.Step(1)
		}
	}
	var err error
	results.Findings, err = t.Run(ctx)
	if err != nil && budget.Ended(ctx) {
		results.Cut = limit.Cut(len(results.Findings), len(t.Knobs()), "knobs")
		return cmp.Or(results.Cut.Nothing(), printCut(out, results.Cut))
	}
	return cmp.Or(err, lost)
}

// time is about how long so many trials take; few need all the time that they have.
func (c *tuneCmd) time(trials int) time.Duration {
	if c.Quick {
		trials /= 5
	}
	return time.Duration(float64(trials) * float64(c.Sample) / float64(15*time.Millisecond) * float64(3*time.Second))
}

// tuneTable has a row for each trial and distance; a row that does not fit continues in a second line.
func tuneTable(w io.Writer) table.Table {
	return table.Table{W: w, Columns: []table.Column{
		{Name: "# knob", Width: 16, Left: true}, {Name: "tried", Width: 24, Left: true}, {Name: "test", Width: 5, Left: true},
		{Name: "bytes", Width: 7}, {Name: "window"}, {Name: "cores", Width: 7, Left: true}, {Name: "pairs"},
		{Name: "new µs", Width: 8, Format: "%.4g"}, {Name: "old µs", Width: 8, Format: "%.4g"},
		{Name: "ratio", Format: "%.3f"}, {Name: "95 % interval", Left: true}, {Name: "new is", Left: true},
	}}
}

func printTried(rows *table.Table, t tune.Tried) error {
	what := t.What
	if t.Confirms {
		what += ", again"
	}
	row := []any{settings.Of(t.Knob).Name, what, t.Job.Test, t.Job.Size, t.Job.Window}
	if len(t.Rows) == 0 {
		return rows.Row(append(row, "", "", "", "", "", "", "no pair was steady")...)
	}
	for _, r := range t.Rows {
		if err := rows.Row(append(slices.Clip(row), r.Distance, r.Pairs, 1e6*r.New, 1e6*r.Old, r.Ratio, r.Interval(),
			r.Outcome())...); err != nil {
			return err
		}
	}
	return nil
}

// part is the part of the file for this machine.
func part(r *tuneResults, f *report.File) *settings.Part {
	e := &f.Environment
	p := &settings.Part{Machine: r.Machine, Comments: []string{
		fmt.Sprintf("by ftbench tune on %s, host %s, in %.0f s", f.Started.Format(time.DateTime), e.Host,
			time.Since(f.Started).Seconds()),
		fmt.Sprintf("Linux %s, %s; others took %.0f %% of CPUs %d and %d", e.Kernel, e.Go, 100*r.Busy, r.CPUs[0],
			r.CPUs[1]),
	}}
	if e.Revision != "" {
		p.Comments = append(p.Comments, fmt.Sprintf("Banyan %.12s", e.Revision))
	}
	for _, found := range r.Findings {
		p.Measured = append(p.Measured, found.Knob)
		if found.Changed() {
			p.Lines = append(p.Lines, settings.Line{ID: found.Knob, Value: found.Value, Comment: found.Why})
			continue
		}
		k := settings.Of(found.Knob)
		p.Comments = append(p.Comments, fmt.Sprintf("%s = %s: %s", k.Name, k.Format(found.Value), found.Why))
	}
	return p
}

// write stores the part and prints its changes.
func (c *tuneCmd) write(path string, p *settings.Part, to *call) error {
	fmt.Fprintln(to.out)
	text, err := settings.Merged(path, p)
	if err != nil {
		return err
	}
	if c.DryRun {
		_, err = fmt.Fprintf(to.out, "# %s would be:\n%s", path, text)
		return err
	}
	// Readable for all users, with any umask: it may be the file of the machine.
	if err := wholefile.Write(path, []byte(text), 0o644); err != nil {
		return fmt.Errorf("settings: %w", err)
	}
	for _, l := range p.Lines {
		k := settings.Of(l.ID)
		if err := table.Printf(to.out, "%s = %s: %s\n", k.Name, k.Format(l.Value), l.Comment); err != nil {
			return err
		}
		if os.Getenv(k.Variable()) != "" {
			fmt.Fprintf(to.out, "  but %s is set and counts before the file\n", k.Variable())
		}
	}
	if len(p.Lines) == 0 {
		fmt.Fprintln(to.out, "the defaults are kept: nothing else is significantly faster here")
	}
	_, err = fmt.Fprintf(to.out, "written: %s\n", path)
	return err
}
