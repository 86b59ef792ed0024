package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/banyan-hpc/banyan/bench/compare"
	"github.com/banyan-hpc/banyan/bench/progressbar"
	"github.com/banyan-hpc/banyan/bench/report"
)

type compareCmd struct {
	Only    []string      `enum:"latency,bw,aware" default:"latency,bw,aware" help:"Groups of measures: ${enum}."`
	Pairs   int           `default:"9" help:"Pairs below which nothing is decided."`
	MaxTime time.Duration `default:"2m" help:"Budget for each measure; what is not decided by then is undecided."`
	Sample  time.Duration `default:"40ms" help:"Duration of one sample."`
	JSON    string        `placeholder:"FILE" default:"results/compare.json" help:"Store all samples, ratios and the environment. Default: ${default}."`
}

// Help explains the method.
func (compareCmd) Help() string {
	return `Banyan and each peer that is installed are sampled in turn on the same two CPUs, with
a bare cache-line ping-pong before and after each sample. A sample around which that
control changed is dropped; the machine's moods (where the host puts the cores) have
results of their own. Printed is the median of the paired ratios with its 95 %
interval, and whether the bounds of docs/status.md are met. A measure ends when its
interval's half-width is 3 % (0.3 % for aware against unaware) or its time is spent.

Exit code 3: a bound is missed. Peers that lack are named with what installs them.

Examples:
  ftbench compare
  ftbench compare --only latency --max-time 30s
  ftbench compare --only aware --max-time 10m --json results/aware.json`
}

// compareResults are the results in the JSON file.
type compareResults struct {
	CPUs     [2]int            `json:"cpus"`
	Words    map[string]string `json:"implementations"`
	Commands map[string]string `json:"commands"`
	// Variables are those of the environment that change what the peers do.
	Variables []string          `json:"variables,omitempty"`
	Absent    map[string]string `json:"absent,omitempty"`
	// Busy is the share of the CPUs that others took before it began.
	Busy     float64           `json:"busy"`
	Measures []*compare.Result `json:"measures"`
}

// maxDrift is the relative change of the control that spoils a sample.
const maxDrift = 0.15

// Run compares.
func (c *compareCmd) Run(to *call) error {
	if c.Pairs < 9 || c.MaxTime <= 0 || c.Sample <= 0 {
		return fmt.Errorf("compare: --pairs %d, --max-time %v, --sample %v: at least 9 pairs and times above 0 are needed", c.Pairs, c.MaxTime, c.Sample)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	file := report.Begin("compare")
	all, err := openContest(ctx, names(c.Only), c.Sample)
	if err != nil {
		return err
	}
	fmt.Fprintln(to.out, all.describe())
	results := compareResults{CPUs: all.cpus, Words: all.words, Commands: all.commands, Variables: variables(os.Environ()), Absent: all.absent, Busy: all.busy}
	results.Measures, err = c.measure(ctx, all, to)
	err = errors.Join(err, all.close(), file.Write(c.JSON, results))
	if err != nil {
		return err
	}
	fmt.Fprintf(to.out, "all samples: %s\n", c.JSON)
	if missed(results.Measures) {
		return exitCode(exitMissed)
	}
	return nil
}

// names returns the implementations that the groups need, each once.
func names(groups []string) []string {
	var out []string
	for _, g := range groups {
		for _, name := range participants[g] {
			if !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	return out
}

// measure carries out the plans and prints each result when it is there.
func (c *compareCmd) measure(ctx context.Context, all *contest, to *call) ([]*compare.Result, error) {
	line := newStatusLine(to.err)
	r := compare.Runner{
		Measure:  all.control.Measure,
		Limits:   compare.Limits{MinPairs: c.Pairs, MaxTime: c.MaxTime, MaxDrift: maxDrift},
		Progress: line.show,
	}
	var results []*compare.Result
	for _, plan := range all.plans(c.Only) {
		if err := all.revive(ctx); err != nil {
			return results, err
		}
		res, err := r.Run(ctx, plan)
		line.clear()
		results = append(results, res)
		if err := errors.Join(err, compare.WriteTable(to.out, res)); err != nil {
			return results, err
		}
	}
	return results, nil
}

// variables returns the settings of the peers' libraries in an environment.
func variables(env []string) []string {
	return slices.DeleteFunc(slices.Sorted(slices.Values(env)), func(e string) bool {
		for _, prefix := range []string{"UCX_", "OMPI_MCA_", "MPIR_CVAR_", "BANYAN_", "GOMAXPROCS=", "GOGC=", "GODEBUG="} {
			if strings.HasPrefix(e, prefix) {
				return false
			}
		}
		return true
	})
}

// missed reports whether a bound is.
func missed(results []*compare.Result) bool {
	return slices.ContainsFunc(results, func(r *compare.Result) bool {
		return slices.ContainsFunc(r.Rows, func(row compare.Row) bool { return row.Verdict == compare.Missed })
	})
}

// statusLine shows progress on a terminal, and nothing elsewhere.
type statusLine struct{ w io.Writer }

func newStatusLine(w io.Writer) statusLine {
	if !progressbar.Terminal(w) {
		return statusLine{io.Discard}
	}
	return statusLine{w}
}

func (s statusLine) show(p *compare.Plan, r *compare.Result) {
	var b strings.Builder
	fmt.Fprintf(&b, "\r\033[K%s: round %d, %d samples dropped", p.Name, len(r.Rounds), r.Dropped)
	for _, row := range r.Rows {
		fmt.Fprintf(&b, ", %s %s %.3f ± %.1f %%", row.Bound.Over, row.Mood, row.Ratio.Median, 100*row.Ratio.HalfWidth())
	}
	fmt.Fprint(s.w, b.String())
}

func (s statusLine) clear() { fmt.Fprint(s.w, "\r\033[K") }
