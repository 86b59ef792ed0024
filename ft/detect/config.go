package detect

import (
	"fmt"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// Rule says who goes on when processes fall silent together, as the two sides
// of a partition do.
type Rule uint8

const (
	// Majority: the side that holds more than half of those who are neither
	// departed nor proven dead goes on; of two halves the one with the lowest
	// process id. The other side ends itself.
	Majority Rule = iota
	// Off: whoever is silent is dead. Both sides of a partition go on.
	Off
)

// String gives the rule as it is written in the setting detect.partition.
func (r Rule) String() string {
	if r == Off {
		return "off"
	}
	return "majority"
}

// Config says who the process is and how patient it is.
type Config struct {
	Self  proc.ID
	Procs int // the processes of the job are 0 … Procs-1
	// Period is the time between two heartbeats, Timeout the silence after which
	// a process is dead.
	Period, Timeout fabric.Time
	// Seed spreads the first heartbeats of the processes over a Period.
	Seed      uint64
	Partition Rule
	// Node gives the machine on which a process is, so that one is observed from
	// another than its own: equal for those that fall silent together. nil: each
	// has one of its own.
	Node func(proc.ID) int
}

// Check says what is wrong with the configuration, nil if nothing is.
func (c *Config) Check() error {
	switch {
	case c.Procs < 1 || c.Procs > proc.MaxIDs:
		return fmt.Errorf("detect: a job of %d processes, not 1 to %d", c.Procs, proc.MaxIDs)
	case int64(c.Self) >= int64(c.Procs):
		return fmt.Errorf("detect: %v in a job of %d", c.Self, c.Procs)
	case c.Period <= 0:
		return fmt.Errorf("detect.period of %d ns: it must be positive", c.Period)
	case c.Timeout/MinPeriods < c.Period:
		return fmt.Errorf("detect.timeout of %d ns is less than %d times detect.period (%d ns): questions could not be answered in time", c.Timeout, MinPeriods, c.Period)
	case c.Partition > Off:
		return fmt.Errorf("detect.partition %d is no rule", c.Partition)
	}
	return nil
}

// MinPeriods is the least number of periods in a timeout.
const MinPeriods = 3

// patience is the silence after which a process is suspected, window the time
// from there to the verdict.
func (c *Config) patience() fabric.Time { return max(c.Timeout-2*c.Period, c.Period*3/2) }

func (c *Config) window() fabric.Time { return c.Timeout - c.patience() }
