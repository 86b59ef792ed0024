package detect

import (
	"fmt"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// Rule decides which processes go on when many fall silent together, as the two sides of a
// partition do.
type Rule uint8

const (
	// Majority: the side with more than half of the processes that have neither departed nor
	// provably failed goes on; of two halves, the one with the lowest process id. The other side
	// ends itself.
	Majority Rule = iota
	// Off: silent processes have failed. Both sides of a partition go on.
	Off
)

// String returns the value of the setting detect.partition.
func (r Rule) String() string {
	if r == Off {
		return "off"
	}
	return "majority"
}

// Config configures a process's detector.
type Config struct {
	Self  proc.ID
	Procs int // the job's processes are 0 … Procs-1
	// Period is the time between two heartbeats, Timeout the silence after which a process counts
	// as failed.
	Period, Timeout fabric.Time
	// Seed spreads the processes' first heartbeats over a Period.
	Seed      uint64
	Partition Rule
	// Node returns the machine of a process, so that a process is observed from another machine:
	// equal for processes that fall silent together. nil: each process has a machine of its own.
	Node func(proc.ID) int
}

// Check returns the error of the configuration, or nil.
func (c *Config) Check() error {
	switch {
	case c.Procs < 1 || c.Procs > proc.MaxIDs:
		return fmt.Errorf("detect: a job of %d processes, not 1 to %d", c.Procs, proc.MaxIDs)
	case int64(c.Self) >= int64(c.Procs):
		return fmt.Errorf("detect: %v in a job of %d", c.Self, c.Procs)
	case c.Period <= 0:
		return fmt.Errorf("detect.period of %d ns: it must be positive", c.Period)
	case c.Timeout/MinPeriods < c.Period:
		return fmt.Errorf("detect.timeout of %d ns is less than %d times detect.period (%d ns): "+
			"questions could not be answered in time", c.Timeout, MinPeriods, c.Period)
	case c.Partition > Off:
		return fmt.Errorf("detect.partition %d is no rule", c.Partition)
	}
	return nil
}

// MinPeriods is the least number of periods in a timeout.
const MinPeriods = 3

// patience is the silence after which a process is suspected, window the time from then to the
// verdict.
func (c *Config) patience() fabric.Time { return max(c.Timeout-2*c.Period, c.Period*3/2) }

func (c *Config) window() fabric.Time { return c.Timeout - c.patience() }
