package paper

import (
	"time"

	"github.com/banyan-hpc/banyan/bench/kill"
	"github.com/banyan-hpc/banyan/coll/tree"
)

// span is the least, the average and the largest of the times of ranks, in microseconds.
type span struct{ min, average, max float64 }

// repeats is how often a plan is made to see how long it takes, rebuildSets how many times the shortest of which counts.
const (
	repeats     = 50
	rebuildSets = 3
)

// rebuild measures, here and now, how long each living rank takes to make its plan with failures in worst order.
func rebuild(ranks, failures int) (span, error) {
	if err := kill.Check("failures", ranks, failures); err != nil {
		return span{}, err
	}
	a := tree.Except(ranks, kill.Worst.Victims(ranks, failures)...)
	out := span{min: 1e9}
	var p tree.Plan
	for number := range a.Count() {
		least := time.Duration(1 << 62)
		for range rebuildSets {
			begin := time.Now()
			for range repeats {
				tree.Build(&p, tree.Rebalance, tree.Binomial, a, nil, 0, a.Rank(number))
			}
			least = min(least, time.Since(begin))
		}
		us := float64(least) / float64(time.Microsecond) / repeats
		out.min, out.max = min(out.min, us), max(out.max, us)
		out.average += us / float64(a.Count())
	}
	return out, nil
}

// add puts the three times at x on three lines.
func (s span) add(lines []Line, x float64) {
	for i, us := range []float64{s.min, s.average, s.max} {
		lines[i].Points = append(lines[i].Points, [2]float64{x, us})
	}
}
