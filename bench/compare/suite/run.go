package suite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/banyan-hpc/banyan/bench/compare"
	"github.com/banyan-hpc/banyan/bench/many"
	"github.com/banyan-hpc/banyan/bench/peers"
	"github.com/banyan-hpc/banyan/bench/table"
)

// Options are the measures and their durations.
type Options struct {
	Groups []string // of [Groups]
	// Pairs is the number of pairs below which nothing is decided.
	Pairs int
	// MaxTime is the budget of each measure, Sample the duration of one sample.
	MaxTime, Sample time.Duration
	// Sizes are those of the NetPIPE groups; the zero range: the default ones.
	Sizes   SizeRange
	Entries []int // lengths of the queue of group match
	Ranks   int   // of group startup
	// ManyRanks and ManySizes are the numbers of ranks and the sizes of messages of group many.
	ManyRanks, ManySizes []int
	// CrowdRanks are the numbers of ranks of group crowd.
	CrowdRanks []int
	// Collectives are those of groups coll and crowd, of Collectives; none: the ones that have bounds of their own.
	Collectives []string
	// NoSeek ends a measure when the core distances that have occurred are decided. Otherwise it continues until
	// near and far ones are.
	NoSeek bool
	// OSU is the directory of OSU's own programs, see peers.MPI.OSU; "": groups coll and crowd use
	// Banyan's.
	OSU string
	// ULFM is the directory of the tools of an Open MPI with fault tolerance; "": Debian's.
	ULFM string
}

// MaxDrift is the relative change of the control that spoils a sample.
const MaxDrift = 0.15

// maxStartup bounds the ranks that spin on one machine.
const maxStartup = 1024

// Check reports impossible measurements.
func (o *Options) Check() error {
	if o.Pairs < 9 || o.MaxTime <= 0 || o.Sample <= 0 {
		return fmt.Errorf("compare: --pairs %d, --max-time %v, --sample %v: at least 9 pairs and times above 0 are "+
			"needed", o.Pairs, o.MaxTime, o.Sample)
	}
	for _, n := range o.Entries {
		if n < peers.MatchBatch || n > peers.MaxEntries {
			return fmt.Errorf("compare: a queue of %d entries: %d to %d are possible", n, peers.MatchBatch,
				peers.MaxEntries)
		}
	}
	if o.Ranks < 1 || o.Ranks > maxStartup {
		return fmt.Errorf("compare: a start of %d ranks: 1 to %d are possible", o.Ranks, maxStartup)
	}
	for _, n := range o.ManyRanks {
		if n < 2 || n > maxStartup {
			return fmt.Errorf("compare: messages among %d ranks: 2 to %d are possible", n, maxStartup)
		}
	}
	for _, n := range o.CrowdRanks {
		if n < 2 || n > maxStartup {
			return fmt.Errorf("compare: collectives of %d ranks: 2 to %d are possible", n, maxStartup)
		}
	}
	for _, name := range o.Collectives {
		if !slices.Contains(Collectives, name) {
			return fmt.Errorf("compare: there is no collective %q: choose of %s", name, strings.Join(Collectives, ", "))
		}
	}
	if len(o.ManySizes) > 0 {
		if err := (&many.Options{Sizes: o.ManySizes, Repeats: manyRepeats}).Check(); err != nil {
			return err
		}
	}
	if s := o.Sizes; s != (SizeRange{}) && (s.Low > s.High || s.High < 1 || s.Low > LargestSize) {
		return fmt.Errorf("compare: --sizes %d:%d: there are sizes from 1 to %d", s.Low, s.High, LargestSize)
	}
	return nil
}

// Results are the results of a comparison. [Comparison.Run] returns them also when it was cut
// short.
type Results struct {
	CPUs     [2]int            `json:"cpus"`
	Words    map[string]string `json:"implementations"`
	Commands map[string]string `json:"commands"`
	// Variables are those of the environment that change the behaviour of the peers.
	Variables []string          `json:"variables,omitempty"`
	Absent    map[string]string `json:"absent,omitempty"`
	// Busy is the share of the CPUs that other processes took before the start.
	Busy     float64           `json:"busy"`
	Measures []*compare.Result `json:"measures"`
	// Curves are measures of many points: netpipe, tcp, unix, startup, coll, crowd, hosts, many and ulfm.
	Curves []*compare.Curve `json:"curves,omitempty"`
	// Flood is the flood of unauthenticated connections and its effect on the rank.
	Flood *flood `json:"unauthenticated,omitempty"`
}

// Run measures the groups, in their order, and prints each result when it is there.
func (c *Comparison) Run(ctx context.Context, out io.Writer, progress func(status string)) (*Results, error) {
	results := &Results{
		CPUs: c.cpus, Words: c.words, Commands: c.commands, Variables: variables(os.Environ()), Absent: c.absent,
		Busy:     c.busy,
		Measures: []*compare.Result{},
	}
	r := &compare.Runner{
		Measure: c.control.Measure, Progress: progress,
		Limits: compare.Limits{MinPairs: c.Pairs, MaxTime: c.MaxTime, MaxDrift: MaxDrift,
			Seek: !c.NoSeek},
	}
	for _, group := range c.Groups {
		if err := c.group(ctx, group, r, results, out); err != nil {
			return results, err
		}
	}
	return results, nil
}

// Measures is the number of measures of Run, each of which has MaxTime.
func (c *Comparison) Measures() int {
	n := 0
	for _, group := range c.Groups {
		n += len(c.plans(group)) + len(c.sweeps(group))
		if group == groupFlood {
			n++
		}
	}
	return n
}

func (c *Comparison) group(ctx context.Context, group string, r *compare.Runner, results *Results,
	out io.Writer) error {
	plans := c.plans(group)
	if group == groupVerbs {
		r = &compare.Runner{Measure: noControl, Limits: r.Limits, Progress: r.Progress}
		r.Limits.Seek = false // there is one distance
	}
	if group == groupFlood {
		var err error
		if results.Flood, err = prepareFlood(ctx, c.servers[overTCP]); err != nil {
			return err
		}
		plans = append(plans, c.floodPlan(results.Flood))
	}
	for _, plan := range plans {
		if err := c.revive(ctx); err != nil {
			return err
		}
		res, err := r.Run(ctx, plan)
		results.Measures = append(results.Measures, res)
		if err = errors.Join(err, compare.WriteTable(out, res)); err != nil {
			return err
		}
	}
	for _, sweep := range c.sweeps(group) {
		curve, err := r.Sweep(ctx, sweep)
		results.Curves = append(results.Curves, curve)
		if err := errors.Join(err, compare.WriteCurve(out, curve)); err != nil {
			return err
		}
	}
	if group != groupFlood {
		return nil
	}
	if err := results.Flood.finish(ctx); err != nil {
		return err
	}
	return table.Printf(out, "%v\n", results.Flood)
}

// variables returns the settings of the peers' libraries in an environment.
func variables(env []string) []string {
	return slices.DeleteFunc(slices.Sorted(slices.Values(env)), func(e string) bool {
		for _, prefix := range []string{"UCX_", "OMPI_MCA_", "MPIR_CVAR_", "BANYAN_", "GOMAXPROCS=", "GOGC=",
			"GODEBUG="} {
			if strings.HasPrefix(e, prefix) {
				return false
			}
		}
		return true
	})
}

// Missed reports whether a bound is missed.
func (r *Results) Missed() bool {
	var rows []compare.Row
	for _, m := range r.Measures {
		rows = append(rows, m.Rows...)
	}
	for _, c := range r.Curves {
		rows = append(rows, c.Rows()...)
	}
	return r.Flood != nil && r.Flood.Joined > 0 ||
		slices.ContainsFunc(rows, func(row compare.Row) bool { return row.Verdict == compare.Missed })
}
