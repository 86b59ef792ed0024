package paper

import (
	"fmt"
	"slices"

	"github.com/banyan-hpc/banyan/bench/fault"
	"github.com/banyan-hpc/banyan/bench/kill"
	"github.com/banyan-hpc/banyan/coll/tree"
)

// Size is how much is measured.
type Size struct {
	// Ranks are the numbers of real ranks, all failures included; the largest has the sweeps over
	// failures.
	Ranks []int
	// Sets of each design are measured, of Calls operations each.
	Sets, Calls int
}

// MinRanks is the smallest job among failures: half and three quarters of its ranks die, and two
// live.
const MinRanks = 4

// Check finds invalid options.
func (s Size) Check() error {
	for _, n := range s.Ranks {
		if n < MinRanks || n > fault.MaxSimulatedRanks {
			return fmt.Errorf("--ranks %d is not within %d…%d", n, MinRanks, fault.MaxSimulatedRanks)
		}
	}
	if len(s.Ranks) == 0 || s.Sets < 1 || s.Calls < 1 {
		return fmt.Errorf("--ranks, --sets and --ops want at least one each")
	}
	return nil
}

// Experiment is one job of real ranks.
type Experiment struct {
	fault.Collective
	// Unknown has the ranks die during operations, one after another. Number counts such jobs: it
	// is the design that meets the first death.
	Unknown bool
	Number  int
}

// String is the name in the progress bar.
func (e Experiment) String() string {
	if e.Unknown {
		return fmt.Sprintf("%s, %d of %d ranks die in it", e.Op, e.Failures, e.Ranks)
	}
	return fmt.Sprintf("%s, %d of %d ranks dead, %s", e.Op, e.Failures, e.Ranks, e.Kill)
}

// The designs as package collective names them. The baseline is measured beside any.
var (
	threeDesigns = []string{tree.Reroute.String(), tree.LookupAvoiding.String(), tree.Rebalance.String()}
	twoDesigns   = []string{tree.Reroute.String(), tree.Rebalance.String()}
	balanced     = []string{tree.Rebalance.String()}
	binomial     = []string{tree.Binomial.String()}
)

// The measurements beyond the paper.
const (
	smallBytes     = 8  // of an allreduce
	unknownRanks   = 16 // of the jobs in which ranks die during operations
	largeDivisor   = 10 // large broadcasts are so many times fewer
	longestMessage = 1 << 20
)

var (
	largeSizes = []int{1 << 10, 8 << 10, 64 << 10, longestMessage}
	otherTrees = []string{"binomial", "knomial:4", "node"}
)

// Experiments are all jobs of real ranks that a report has room for, in the order of its sections.
func Experiments(s Size) []Experiment {
	ranks := slices.Sorted(slices.Values(s.Ranks))
	largest := ranks[len(ranks)-1]
	base := fault.Collective{Sets: s.Sets, Calls: s.Calls, Kill: kill.Worst, Trees: binomial, Designs: threeDesigns}
	var out []Experiment
	add := func(o fault.Collective) { out = append(out, Experiment{Collective: o}) }
	for _, base.Op = range []fault.Op{fault.Barrier, fault.Bcast} {
		if base.Op == fault.Bcast {
			base.Size = bcastBytes
		}
		for n := 2; n < ranks[0]; n *= 2 { // figures 5 and 8
			o := base
			o.Ranks = n
			add(o)
		}
		for _, n := range ranks {
			for _, o := range amongFailures(base, n, n == largest) {
				add(o)
			}
		}
	}
	for _, o := range beyond(base, largest) {
		add(o)
	}
	unknown := base
	unknown.Op, unknown.Size, unknown.Calls, unknown.Ranks = fault.Barrier, 0, 1, min(unknownRanks, largest)
	unknown.Failures = min(unknown.Ranks*3/4, unknown.Ranks-2)
	for number := 0; number*unknown.Failures < s.Sets*len(threeDesigns); number++ {
		out = append(out, Experiment{Collective: unknown, Unknown: true, Number: number})
	}
	return out
}

// amongFailures are the jobs of one number of ranks: quarters of them dead in each order, and for
// the figures the paper's numbers of failures in the scale of this job.
func amongFailures(o fault.Collective, ranks int, all bool) []fault.Collective {
	o.Ranks = ranks
	failures := quarters(ranks)
	if all {
		for _, f := range failureCounts {
			failures = append(failures, min(f*ranks/tableRanks, ranks-2))
		}
	}
	slices.Sort(failures)
	var out []fault.Collective
	for _, o.Kill = range allOrders {
		for _, o.Failures = range slices.Compact(slices.Clone(failures)) {
			if o.Kill != kill.Worst && o.Failures == 0 {
				continue
			}
			job := o
			if o.Kill != kill.Worst { // as in figures 7 and 10
				job.Designs = twoDesigns
			}
			out = append(out, job)
		}
	}
	return out
}

// quarters are none, a quarter, a half and three quarters of so many ranks.
func quarters(ranks int) []int {
	return slices.Compact([]int{0, ranks / 4, ranks / 2, min(ranks*3/4, ranks-2)})
}

// beyond are the jobs that the paper does not have.
func beyond(base fault.Collective, ranks int) []fault.Collective {
	var out []fault.Collective
	base.Ranks = ranks
	o := base
	o.Op, o.Size = fault.Allreduce, smallBytes
	for _, o.Failures = range quarters(ranks) {
		out = append(out, o)
	}
	o = base
	o.Op, o.Failures, o.Designs, o.Calls = fault.Bcast, ranks/2, twoDesigns, max(1, base.Calls/largeDivisor)
	for _, o.Size = range largeSizes[1:] {
		out = append(out, o)
	}
	o = base
	o.Op, o.Size, o.Designs, o.Trees = fault.Barrier, 0, balanced, otherTrees
	for _, o.Failures = range quarters(ranks) {
		out = append(out, o)
	}
	return out
}
