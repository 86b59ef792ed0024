package fault

import (
	"slices"

	"github.com/banyan-hpc/banyan/bench/kill"
	"github.com/banyan-hpc/banyan/bench/stats"
	"github.com/banyan-hpc/banyan/coll/tree"
)

// JudgedCollective is a job whose lines are compared with their baselines.
type JudgedCollective struct {
	Options Collective   `json:"options"`
	Lines   []JudgedLine `json:"lines"`
}

// JudgedLine is the time of one design on one tree. Times are of one operation.
type JudgedLine struct {
	Times
	Median     float64        `json:"median_ns"`
	Difference stats.Interval `json:"difference_ns"` // to the baseline
	Ratio      stats.Interval `json:"ratio"`
	// Verdict is "baseline", "equal", "slower", "faster" or "undecided".
	Verdict string `json:"verdict"`
}

// equalWithin is how far from 1 the ratio of equal lines may be.
const equalWithin = 0.05

// Judge compares the lines of a job with their baselines, round by round. In virtual time, where only
// the seed is random, the intervals are from the smallest to the largest.
func (r *CollectiveResult) Judge(virtual bool) JudgedCollective {
	out := JudgedCollective{Options: r.Options}
	for _, l := range r.Lines {
		base := r.Against(l.Line)
		differences, ratios := stats.Differences(l.Sets, base.Sets), stats.Ratios(l.Sets, base.Sets)
		line := JudgedLine{
			Times: l, Median: stats.Median(l.Sets), Verdict: "baseline",
			Difference: stats.DifferenceInterval(differences), Ratio: stats.MedianInterval(ratios),
		}
		if virtual {
			line.Difference.Low, line.Difference.High = slices.Min(differences), slices.Max(differences)
			line.Ratio.Low, line.Ratio.High = slices.Min(ratios), slices.Max(ratios)
		}
		if !l.Baseline() {
			line.Verdict = line.Ratio.Sameness(equalWithin)
		}
		out.Lines = append(out.Lines, line)
	}
	return out
}

// DefaultFailures are numbers of failures from none to three quarters of the ranks.
func DefaultFailures(ranks int) []int {
	out := []int{0}
	for f, most := 1, min(ranks*3/4, ranks-2); f <= most; f = min(2*f, max(most, f+1)) {
		out = append(out, f)
	}
	return out
}

// UnknownJobs is how many jobs give each fault-aware line so many deaths as the options have sets.
func (o *Collective) UnknownJobs() int {
	deaths, each := o.Sets*len(o.aware()), max(1, o.Failures)
	return max(1, (deaths+each-1)/each)
}

// The means of Hursey & Graham §4.2, in microseconds, at BoundRanks ranks, by failures. The bound on
// Banyan's is one microsecond.
var printedMeans = map[int]float64{0: 16.1, 896: 50.9}

// BoundRanks is the number of ranks for which the paper has means.
const (
	BoundRanks   = 1024
	planLimitsUs = 1.0
)

// PlanBound compares a plan with the paper.
type PlanBound struct {
	Failures int     `json:"failures"`
	Mean     float64 `json:"mean_us"`
	Paper    float64 `json:"paper_mean_us"`
	Limit    float64 `json:"limit_us"`
	Met      bool    `json:"met"`
}

// PaperMean returns the paper's mean, in microseconds, for a plan that it has measured.
func (p *Plan) PaperMean() (us float64, ok bool) {
	us, ok = printedMeans[p.Failures]
	return us, ok && p.Ranks == BoundRanks && p.Design == tree.Rebalance.String() && p.Shape == tree.Binomial.String()
}

// JudgePlans compares plans with the paper, which has the worst order only.
func JudgePlans(plans []Plan, order kill.Order) []PlanBound {
	var out []PlanBound
	for _, p := range plans {
		if paper, ok := p.PaperMean(); ok && (p.Failures == 0 || order == kill.Worst) {
			out = append(out, PlanBound{p.Failures, p.MeanNs / 1e3, paper, planLimitsUs, p.MeanNs/1e3 <= planLimitsUs})
		}
	}
	return out
}
