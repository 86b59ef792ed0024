package fault

import (
	"fmt"
	"time"
)

// Wait is what survivors do when the victim dies.
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

// Options of a measurement. All processes of it have the same.
type Options struct {
	// Ranks of a round: the survivors and the victim, at least 2.
	Ranks int `json:"ranks"`
	// Kills is the number of rounds.
	Kills int `json:"kills"`
	// PerJob is how many victims a job has. Those whose turn has not come sleep; with
	// detectors that tell everybody they are told as well.
	PerJob int `json:"kills_per_job"`
	// Wait is what survivors do.
	Wait Wait `json:"wait"`
	// VictimMB is how much memory a victim touches beyond what it has anyway, in MiB.
	VictimMB int `json:"victim_rss_mb"`
	// Settle is the time between the last survivor's word and the kill.
	Settle time.Duration `json:"settle_ns"`
	// Timeout is how long a survivor may take to notice.
	Timeout time.Duration `json:"timeout_ns"`
	// StartTimeout is how long ranks may take to be ready, the start of their job included; 0: as
	// long as StartLimit says.
	StartTimeout time.Duration `json:"start_timeout_ns"`
}

// What the ranks of a job may take to be ready: so much, and so much more for each.
const (
	startLeast = 30 * time.Second
	startEach  = time.Second / 2
)

// StartLimit is how long the ranks of a job of so many kills may take to be ready: a start that
// takes its time, as hundreds of ranks on a few cores do, is no failure.
func (o Options) StartLimit(kills int) time.Duration {
	if o.StartTimeout > 0 {
		return o.StartTimeout
	}
	return startLeast + startEach*time.Duration(o.Processes(kills))
}

// Limits of Options.
const (
	MaxRanks    = 4096
	MaxKills    = 1 << 20
	MaxPerJob   = 1024
	MaxVictimMB = 1 << 20
)

// Check finds what makes no sense.
func (o Options) Check() error {
	for _, v := range []struct {
		name            string
		value, min, max int
	}{
		{"-n", o.Ranks, 2, MaxRanks},
		{"--kills", o.Kills, 1, MaxKills},
		{"--per-job", o.PerJob, 1, MaxPerJob},
		{"--victim-rss", o.VictimMB, 0, MaxVictimMB},
	} {
		if v.value < v.min || v.value > v.max {
			return fmt.Errorf("fault detect: %s %d is not within %d…%d", v.name, v.value, v.min, v.max)
		}
	}
	switch o.Wait {
	case ForVictim, ForAny, InBarrier, Polling:
	default:
		return fmt.Errorf("fault detect: --wait %q: victim, any, barrier or poll", o.Wait)
	}
	if o.Settle < 0 {
		return fmt.Errorf("fault detect: --settle %v: at least 0 is needed", o.Settle)
	}
	if o.Timeout <= 0 {
		return fmt.Errorf("fault detect: --timeout %v: a time above 0 is needed", o.Timeout)
	}
	if o.StartTimeout < 0 {
		return fmt.Errorf("fault detect: --start-timeout %v: at least 0 is needed", o.StartTimeout)
	}
	return nil
}

// Processes is how many a job of so many kills starts.
func (o Options) Processes(kills int) int { return o.Ranks - 1 + kills }
