package recovery

import (
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Op is what is measured.
type Op string

// The operations.
const (
	Agree  Op = "agree"
	Shrink Op = "shrink"
	Revoke Op = "revoke"
)

// Options of a measurement. All processes of it have the same.
type Options struct {
	Op Op `json:"op"`
	// Ranks that are started, at least 2 of which live.
	Ranks int `json:"ranks"`
	// Failures is how many of them are killed before anything is measured.
	Failures int `json:"failures"`
	// Rounds are the pairs of blocks, Calls the calls of a block; a revocation is a round of its own.
	Rounds int `json:"rounds"`
	Calls  int `json:"calls"`
	// Settle is how long the others wait in their barrier before it is revoked.
	Settle time.Duration `json:"settle_ns"`
}

// Limits of Options.
const (
	MaxRanks  = 4096
	MaxRounds = 1 << 20
	MaxCalls  = 10_000
)

// Check finds what makes no sense.
func (o Options) Check() error {
	for _, v := range []struct {
		name            string
		value, min, max int
	}{
		{"-n", o.Ranks, 2, MaxRanks},
		{"--failures", o.Failures, 0, o.Ranks - 2},
		{"--rounds", o.Rounds, 1, MaxRounds},
		{"--calls", o.Calls, 1, MaxCalls},
	} {
		if v.value < v.min || v.value > v.max {
			return fmt.Errorf("fault %s: %s %d is not within %d…%d", o.Op, v.name, v.value, v.min, v.max)
		}
	}
	switch o.Op {
	case Agree, Shrink, Revoke:
	default:
		return fmt.Errorf("fault %s: agree, shrink or revoke", o.Op)
	}
	if o.Settle < 0 || o.Settle > time.Minute {
		return fmt.Errorf("fault %s: --settle %v is not within 0…1m", o.Op, o.Settle)
	}
	return nil
}

// Against says what the operation is compared with.
func (o Options) Against() string {
	switch {
	case o.Op == Revoke:
		return "barrier"
	case o.Op == Shrink:
		return "agree"
	case o.Failures > 0:
		return fmt.Sprintf("agree of %d", o.Ranks-o.Failures)
	}
	return "reduce+bcast"
}

// patience is about how long ranks poll before they sleep, where they share cores; where each has one it is longer.
const patience = time.Millisecond

// Waiting says of a revocation how the others wait for it; of other operations nothing.
func (o Options) Waiting() string {
	switch {
	case o.Op != Revoke:
		return ""
	case o.Settle < patience:
		return fmt.Sprintf("; the others wait for %v, polling", o.Settle)
	}
	return fmt.Sprintf("; the others wait for %v, asleep after about %v", o.Settle, patience)
}

// victims lists who is to be killed: at equal distances, rank 0 first.
func victims(ranks, failures int) []int {
	var out []int
	for k := range failures {
		out = append(out, k*ranks/failures)
	}
	return out
}

// Spread is how the times of calls are distributed, in ns.
type Spread struct {
	Count int           `json:"count"`
	Min   time.Duration `json:"min_ns"`
	P50   time.Duration `json:"p50_ns"`
	P90   time.Duration `json:"p90_ns"`
	P99   time.Duration `json:"p99_ns"`
	Max   time.Duration `json:"max_ns"`
	Mean  time.Duration `json:"mean_ns"`
}

// times is a histogram.
type times struct{ h *hdrhistogram.Histogram }

func newTimes() times { return times{hdrhistogram.New(1, int64(time.Hour), 3)} }

// add counts a time; what lies beyond an hour counts as one.
func (t times) add(ns int64) { _ = t.h.RecordValue(max(1, min(ns, int64(time.Hour)))) }

func (t times) spread() Spread {
	at := func(q float64) time.Duration { return time.Duration(t.h.ValueAtQuantile(q)) }
	return Spread{
		Count: int(t.h.TotalCount()), Min: time.Duration(t.h.Min()), P50: at(50), P90: at(90), P99: at(99),
		Max: time.Duration(t.h.Max()), Mean: time.Duration(t.h.Mean()),
	}
}

// Result is what one job has measured.
type Result struct {
	Options Options `json:"options"`
	Against string  `json:"against"`
	// Calls are those of the operation, of all ranks; of revocations the last rank of each. Baseline are
	// those of what it is compared with.
	Calls    Spread `json:"calls"`
	Baseline Spread `json:"baseline"`
	// Times and BaselineTimes are a block's mean over its calls and ranks, by round, and Ratios the one over the
	// other.
	Times         []time.Duration `json:"times_ns"`
	BaselineTimes []time.Duration `json:"baseline_times_ns"`
	Ratios        []float64       `json:"ratios"`
}
