package fault

import (
	"context"
	"fmt"
	"io"
	"math/bits"
	"slices"
	"time"

	"github.com/banyan-hpc/banyan/bench/budget"
	"github.com/banyan-hpc/banyan/bench/stats"
)

// Recovery measures agree, shrink or revoke. All processes of a measurement have the same options.
type Recovery struct {
	Op Op `json:"op"`
	// Ranks that are started, at least 2 of which survive.
	Ranks int `json:"ranks"`
	// Failures is the number of ranks that are killed before the measurement.
	Failures int `json:"failures"`
	// Rounds is the number of pairs of blocks, Calls the number of calls of a block. A revocation is
	// a round by itself.
	Rounds int `json:"rounds"`
	Calls  int `json:"calls"`
	// Settle is how long the others wait in their barrier before it is revoked.
	Settle time.Duration `json:"settle_ns"`
	// Budget bounds the measurement.
	Budget budget.Budget `json:"-"`
}

// Check returns an error for options that make no sense.
func (o Recovery) Check() error {
	if err := checkLimits(string(o.Op), limit{"-n", o.Ranks, 2, MaxRanks},
		limit{"--failures", o.Failures, 0, o.Ranks - 2}, limit{"--rounds", o.Rounds, 1, MaxRounds}, limit{"--calls", o.Calls, 1, 10_000}); err != nil {
		return err
	}
	if !slices.Contains([]Op{Agree, Shrink, Revoke}, o.Op) {
		return fmt.Errorf("fault %s: agree, shrink or revoke", o.Op)
	}
	if o.Settle < 0 || o.Settle > time.Minute {
		return fmt.Errorf("fault %s: --settle %v is not within 0…1m", o.Op, o.Settle)
	}
	return nil
}

// Against names the baseline of the operation.
func (o Recovery) Against() string {
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

// pollTime is about how long ranks that share cores poll before they sleep. Ranks with a core each
// poll longer.
const pollTime = time.Millisecond

// Waiting describes how the other ranks wait for a revocation; "" for other operations.
func (o Recovery) Waiting() string {
	switch {
	case o.Op != Revoke:
		return ""
	case o.Settle < pollTime:
		return fmt.Sprintf("; the others wait for %v, polling", o.Settle)
	}
	return fmt.Sprintf("; the others wait for %v, asleep after about %v", o.Settle, pollTime)
}

// victims are the ranks to kill: at equal distances, rank 0 first. The distance is a power of two, so that jobs of
// all sizes lose the same places of the binomial tree. Ranks at other distances are near its leaves, and no child
// of a dead rank then has to find a second death.
func (o Recovery) victims() (ranks []int) {
	if o.Failures == 0 {
		return nil
	}
	distance := 1 << (bits.Len(uint(o.Ranks/o.Failures)) - 1)
	for k := range o.Failures {
		ranks = append(ranks, k*distance)
	}
	return ranks
}

// RecoveryResult is the result of one job.
type RecoveryResult struct {
	Options Recovery `json:"options"`
	Against string   `json:"against"`
	// Calls are the times of the operation at all ranks, for revocations at the last rank. Baseline
	// are those of the baseline.
	Calls    stats.Spread `json:"calls"`
	Baseline stats.Spread `json:"baseline"`
	// Times and BaselineTimes are a block's mean over its calls and ranks, by round; Ratios divides
	// the one by the other.
	Times         []time.Duration `json:"times_ns"`
	BaselineTimes []time.Duration `json:"baseline_times_ns"`
	Ratios        []float64       `json:"ratios"`
	// Cut is set when the time was over. The round that was not complete is dropped, but for the calls
	// of its first block, which count in Calls or Baseline.
	Cut *budget.Cut `json:"cut,omitempty"`
}

// Measure runs one job of ranks that call [Recovery.Rank]. It calls step after each round. The ranks'
// other output goes to rest.
func (o Recovery) Measure(ctx context.Context, start Start, rest io.Writer, step func()) (*RecoveryResult, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	j := job{ranks: o.Ranks, victims: o.victims(), start: start, rest: rest, step: step}
	result, err := resultOf[RecoveryResult](ctx, j)
	if err != nil {
		return nil, fmt.Errorf("fault %s: %w", o.Op, err)
	}
	return result, nil
}
