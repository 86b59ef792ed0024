package fault

import (
	"fmt"
	"slices"
	"time"

	"github.com/banyan-hpc/banyan/bench/budget"
	"github.com/banyan-hpc/banyan/bench/stats"
)

// Wait is the operation of the survivors when the victim dies.
type Wait string

// The ways to wait.
const (
	// ForVictim receives from the victim.
	ForVictim Wait = "victim"
	// ForAny receives from any source.
	ForAny Wait = "any"
	// InBarrier waits in a barrier that the victim does not enter.
	InBarrier Wait = "barrier"
	// Polling tests a receive from the victim until it is complete, and never sleeps.
	Polling Wait = "poll"
)

// Detection measures the time from the death of a rank to its detection. All processes of a
// measurement have the same options.
type Detection struct {
	// Ranks of a round: the survivors and the victim, at least 2.
	Ranks int `json:"ranks"`
	// Kills is the number of rounds.
	Kills int `json:"kills"`
	// PerJob is the number of victims of a job. A victim sleeps before its turn. Detectors that
	// notify all ranks notify it as well.
	PerJob int `json:"kills_per_job"`
	// Wait is the survivors' operation.
	Wait Wait `json:"wait"`
	// VictimMB is the memory, in MiB, that a victim touches beside that of any rank.
	VictimMB int `json:"victim_rss_mb"`
	// Settle is the time between the last survivor's report and the kill.
	Settle time.Duration `json:"settle_ns"`
	// Timeout is how long a survivor may take to notice.
	Timeout time.Duration `json:"timeout_ns"`
	// StartTimeout is how long ranks may take to be ready, the start of their job included;
	// 0: the time that StartLimit computes.
	StartTimeout time.Duration `json:"start_timeout_ns"`
	// Budget bounds the measurement: the round that is under way at its end is dropped with its job.
	Budget budget.Budget `json:"-"`
}

// The time in which the ranks of a job must be ready: a constant part, and a part for each rank.
const (
	startLeast = 30 * time.Second
	startEach  = time.Second / 2
)

// StartLimit is how long the ranks of a job of so many kills may take to be ready. It grows with the
// job: hundreds of ranks on a few cores start slowly.
func (o Detection) StartLimit(kills int) time.Duration {
	if o.StartTimeout > 0 {
		return o.StartTimeout
	}
	return startLeast + startEach*time.Duration(o.Processes(kills))
}

// Processes is the number of processes of a job of so many kills.
func (o Detection) Processes(kills int) int { return o.Ranks - 1 + kills }

// Check returns an error for options that make no sense.
func (o Detection) Check() error {
	if err := checkLimits("detect", limit{"-n", o.Ranks, 2, MaxRanks}, limit{"--kills", o.Kills, 1, MaxKills},
		limit{"--per-job", o.PerJob, 1, MaxPerJob}, limit{"--victim-rss", o.VictimMB, 0, MaxVictimMB}); err != nil {
		return err
	}
	switch {
	case !slices.Contains([]Wait{ForVictim, ForAny, InBarrier, Polling}, o.Wait):
		return fmt.Errorf("fault detect: --wait %q: victim, any, barrier or poll", o.Wait)
	case o.Settle < 0:
		return fmt.Errorf("fault detect: --settle %v: at least 0 is needed", o.Settle)
	case o.Timeout <= 0:
		return fmt.Errorf("fault detect: --timeout %v: a time above 0 is needed", o.Timeout)
	case o.StartTimeout < 0:
		return fmt.Errorf("fault detect: --start-timeout %v: at least 0 is needed", o.StartTimeout)
	}
	return nil
}

// Round is one failure.
type Round struct {
	// Survivors are the times from the failure to each survivor's error, in ns.
	Survivors []time.Duration `json:"survivors_ns"`
}

// Last is the time until the last survivor had the error.
func (r Round) Last() time.Duration { return slices.Max(r.Survivors) }

// Latencies are the times of all rounds.
type Latencies struct {
	// Each is over every survivor of every round, Last over the slowest survivor of each round.
	Each   stats.Spread `json:"each_survivor"`
	Last   stats.Spread `json:"last_survivor"`
	Rounds []Round      `json:"rounds"`
}

// LatenciesOf are the times of each survivor in rounds measured elsewhere.
func LatenciesOf(rounds [][]time.Duration) Latencies {
	var all []Round
	for _, times := range rounds {
		all = append(all, Round{times})
	}
	return latencies(all)
}

func latencies(rounds []Round) Latencies {
	l := Latencies{Rounds: rounds}
	l.Each, l.Last = stats.SpreadOf(l.All()...), stats.SpreadOf(l.Lasts()...)
	return l
}

// All are the times of every survivor of every round.
func (l *Latencies) All() (all []time.Duration) {
	for _, round := range l.Rounds {
		all = append(all, round.Survivors...)
	}
	return all
}

// Lasts are the times of the last survivor of each round.
func (l *Latencies) Lasts() (lasts []time.Duration) {
	for _, round := range l.Rounds {
		lasts = append(lasts, round.Last())
	}
	return lasts
}

// DetectionResult is the result of [Detection.Measure].
type DetectionResult struct {
	Options Detection   `json:"options"`
	Cut     *budget.Cut `json:"cut,omitempty"` // set when the time was over
	Latencies
}

// TailPoint is a point of [Tail]: at this time after the failure this share of the survivors had no
// error yet.
type TailPoint struct {
	After time.Duration
	Share float64 // above 0, at most 1
}

// Tail is the complementary distribution of times: 1 at the shortest, 1/n at the longest.
func Tail(times []time.Duration) []TailPoint {
	sorted := slices.Sorted(slices.Values(times))
	points := make([]TailPoint, len(sorted))
	for i, d := range sorted {
		points[i] = TailPoint{d, float64(len(sorted)-i) / float64(len(sorted))}
	}
	return points
}
