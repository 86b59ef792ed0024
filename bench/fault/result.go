package fault

import (
	"fmt"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Result is what Detect has measured.
type Result struct {
	Options Options `json:"options"`
	// Each is over every survivor of every round, Last over the slowest survivor of
	// each round.
	Each   Spread  `json:"each_survivor"`
	Last   Spread  `json:"last_survivor"`
	Rounds []Round `json:"rounds"`
}

// Spread is how times are distributed, in ns.
type Spread struct {
	Count int           `json:"count"`
	Min   time.Duration `json:"min_ns"`
	P50   time.Duration `json:"p50_ns"`
	P90   time.Duration `json:"p90_ns"`
	P99   time.Duration `json:"p99_ns"`
	Max   time.Duration `json:"max_ns"`
	Mean  time.Duration `json:"mean_ns"`
}

// spread puts times, at least one, into a histogram.
func spread(times []time.Duration) (Spread, error) {
	h := hdrhistogram.New(1, int64(time.Hour), 3)
	for _, d := range times {
		if err := h.RecordValue(int64(max(1, d))); err != nil {
			return Spread{}, fmt.Errorf("fault detect: a time of %v: %w", d, err)
		}
	}
	longest := slices.Max(times)
	at := func(q float64) time.Duration { return min(longest, time.Duration(h.ValueAtQuantile(q))) }
	return Spread{
		Count: len(times), Min: slices.Min(times), P50: at(50), P90: at(90), P99: at(99),
		Max: longest, Mean: time.Duration(h.Mean()),
	}, nil
}

// All are the times of every survivor of every round.
func (r *Result) All() []time.Duration {
	var all []time.Duration
	for _, round := range r.Rounds {
		all = append(all, round.Survivors...)
	}
	return all
}

// Lasts are the times of the last survivor of each round.
func (r *Result) Lasts() []time.Duration {
	lasts := make([]time.Duration, len(r.Rounds))
	for i, round := range r.Rounds {
		lasts[i] = round.Last()
	}
	return lasts
}

func summary(o Options, rounds []Round) (*Result, error) {
	r := &Result{Options: o, Rounds: rounds}
	var err error
	if r.Each, err = spread(r.All()); err != nil {
		return nil, err
	}
	r.Last, err = spread(r.Lasts())
	return r, err
}

// Step is a point of [Unaware]: so long after the kill this share did not know yet.
type Step struct {
	After time.Duration
	Share float64 // above 0, at most 1
}

// Unaware sorts times into the share that did not know of the death before each:
// 1 at the shortest, 1/n at the longest. It is what a tail looks like.
func Unaware(times []time.Duration) []Step {
	sorted := slices.Sorted(slices.Values(times))
	steps := make([]Step, len(sorted))
	for i, d := range sorted {
		steps[i] = Step{d, float64(len(sorted)-i) / float64(len(sorted))}
	}
	return steps
}
