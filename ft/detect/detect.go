package detect

import (
	"fmt"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/proc"
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

// Kind says what an Action asks of the driver.
type Kind uint8

const (
	// Send: send Payload to To, as a frame of fabric.ClassDetect. What cannot be
	// sent at once may be dropped.
	Send Kind = iota
	// Report: Peer is dead, for the reason Cause. The driver reports it to the
	// engine, which answers with Died once it stands in the View.
	Report
	// Die: this process counts as dead elsewhere, or lost a partition. The driver
	// ends it with Err. Nothing comes after it.
	Die
)

// Action is something that the driver is to do.
type Action struct {
	Kind    Kind
	To      proc.ID    // of Send
	Payload []byte     // of Send; shared with other Sends, not to be changed
	Peer    proc.ID    // of Report
	Cause   proc.Cause // of Report
	Err     error      // of Die: an *EndError
}

// Machine is the detector of one process. Its methods must not be called at the
// same time: the driver holds a lock, or is alone. After each input the driver
// drains Next.
//
// Times never go backwards from one input to the next; one that does is taken
// for the last.
type Machine struct {
	cfg Config
	now fabric.Time
	out []Action
}

// New makes the detector of one process. It begins to send heartbeats at its
// first Tick, and grants each process an extra Timeout for its first one.
//
// Preconditions: cfg.Check() == nil.
func New(cfg Config, now fabric.Time) *Machine {
	if err := cfg.Check(); err != nil {
		panic(err)
	}
	return &Machine{cfg: cfg, now: now}
}

// Tick tells the time. It is wanted at Due; called earlier it does no harm,
// called later the machine knows that its own process was held up.
func (m *Machine) Tick(now fabric.Time) {}

// Due is when Tick is wanted next: at most a Period ahead. It may come nearer
// with every input. fabric.Forever: never again.
func (m *Machine) Due() fabric.Time { return m.now + m.cfg.Period }

// Heard takes a frame of fabric.ClassDetect that came from a process. An error
// says that the frame is none that a correct process sends: nothing in it was
// believed, and the sender may be cut off as corrupt.
func (m *Machine) Heard(from proc.ID, payload []byte, now fabric.Time) error { return nil }

// Died says that a death stands in the View of this process: by a provider's
// evidence, or as the answer to a Report. A death that the machine did not know
// is on its way to the others when Next has been drained.
func (m *Machine) Died(peer proc.ID, cause proc.Cause, now fabric.Time) {}

// Departed says that a process has finalized in order: no heartbeat is expected
// from it, and it is never reported.
func (m *Machine) Departed(peer proc.ID) {}

// Expelled says that another process refuses this one because it counts as dead
// there. Unless the other counts as dead here, this process ends itself.
func (m *Machine) Expelled(by proc.ID, now fabric.Time) {}

// Next gives what is to be done, one action after the other; false when nothing
// is left. Inputs may come between two calls: Reports come before Sends, so that
// deaths that the engine confirms at once travel in one message.
func (m *Machine) Next() (Action, bool) { return Action{}, false }

// EndError is why this process has to end. It is returned by no method, but
// stands in an Action.
type EndError struct {
	// Partition: this process was on the losing side; With of Of processes,
	// itself included, were on its side. Else By said that this process counts as
	// dead there.
	Partition bool
	With, Of  int
	By        proc.ID
	// Stopped is the longest time for which this process did not run, as far as
	// the detector noticed.
	Stopped fabric.Time
	Timeout fabric.Time
}
