package sim

import (
	"fmt"
	"io"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// Picos is a length of virtual time in picoseconds: one byte at 50 GB/s takes 20 of them. The
// contract's [fabric.Time] is whole nanoseconds; instants of the public interface use that, lengths
// use Picos.
type Picos int64

// Lengths of time.
const (
	Nanosecond  Picos = 1000
	Microsecond       = 1000 * Nanosecond
	Millisecond       = 1000 * Microsecond
	Second            = 1000 * Millisecond
)

// never is an instant that does not come. maxLength bounds every configured length, so that sums of
// a few of them cannot overflow.
const (
	never     = Picos(1<<63 - 1)
	maxLength = 1_000_000 * Second
)

// numLinks is the number of link classes of the contract.
const numLinks = int(fabric.LinkAcross) + 1

// Link holds the LogGP parameters of one class of links.
type Link struct {
	// Latency is L: from the sender's port to the receiver's memory.
	Latency Picos
	// SendOverhead and RecvOverhead are o: the cost of one frame on the core of the sender and of
	// the receiver, besides CPU.PerByte.
	SendOverhead, RecvOverhead Picos
	// Gap is g: the least time between two frames that leave one port.
	Gap Picos
	// GapPerByte is G: the inverse of the bandwidth.
	GapPerByte Picos
}

// CPU holds the cost of work on the core, on every link.
type CPU struct {
	// PerByte is the cost of copying one payload byte out of the sender's buffer, and again into
	// the receiver's.
	PerByte Picos
	// EmptyPoll is the cost of a Poll that finds nothing and of a TrySend that is refused. It is at
	// least one picosecond: a loop that polls must end.
	EmptyPoll Picos
	// Yield is the cost of Host.Yield, at least one picosecond.
	Yield Picos
}

// Topology places process p on node p/ProcsPerNode, and node n under switch
// n/NodesPerSwitch.
type Topology struct {
	ProcsPerNode, NodesPerSwitch int
}

// Detection bounds the delay between a death and its evidence at an observer. Each pair of dead and
// observing process draws its own, uniformly, both ends included.
type Detection struct {
	Min, Max Picos
}

// Spikes delays some frames in the network: with probability Chance by a length from [Min, Max),
// each octave of which is equally likely. Order is kept, so a spike also delays the frames behind
// it.
type Spikes struct {
	Chance   float64
	Min, Max Picos
}

// Config describes a simulated job. [DefaultConfig] fills every field.
type Config struct {
	// Procs bounds the process ids: 0 … Procs-1.
	Procs int
	// Seed determines all random choices.
	Seed     uint64
	Topology Topology
	// Links are indexed by fabric.LinkClass.
	Links [numLinks]Link
	CPU   CPU
	// NodePort is shared by the processes of a node.
	NodePort NodePort
	// Credits bounds the frames in flight from one process to another; TrySend refuses more.
	Credits int
	// Inline, MaxFrame and Eager are reported in Caps, in bytes. Only MaxFrame is enforced.
	Inline, MaxFrame, Eager int
	// Get gives connections one-sided reads.
	Get bool
	// Blocks lets processes of a node share memory; see fabric.Blocks. An access costs no time.
	Blocks bool
	// Moves lets processes write and read memory that others have shared; see fabric.Mover. MoveLoss is the
	// probability that a move loses all that are under way between the two processes, and their path for a while.
	Moves    bool
	MoveLoss float64
	// Fetch has long messages read beside the processes; see fabric.Fetcher. MoveLoss is also the probability that a read fails.
	Fetch     bool
	Detection Detection
	Spikes    Spikes
	// LossAtDeath is the probability, per peer, that a death loses frames in flight; then their
	// number is uniform, and they are the last ones.
	LossAtDeath float64
	// MaxTime ends the run with ErrTimeLimit, MaxSteps with ErrStepLimit (steps of all processes
	// together).
	MaxTime  fabric.Time
	MaxSteps uint64
	// Trace gets one line per event; nil for none.
	Trace io.Writer
}

// validate names the first field that is out of its range.
func (c *Config) validate() error {
	ints := []struct {
		name          string
		value, lo, hi int
	}{
		{"Procs", c.Procs, 1, proc.MaxIDs},
		{"Topology.ProcsPerNode", c.Topology.ProcsPerNode, 1, proc.MaxIDs},
		{"Topology.NodesPerSwitch", c.Topology.NodesPerSwitch, 1, proc.MaxIDs},
		{"Credits", c.Credits, 1, 1 << 20},
		{"MaxFrame", c.MaxFrame, 1, 1 << 30},
		{"Inline", c.Inline, 0, c.MaxFrame},
		{"Eager", c.Eager, 0, 1 << 30},
		{"NodePort.AckEvery", c.NodePort.AckEvery, 0, 1 << 20},
	}
	for _, f := range ints {
		if f.value < f.lo || f.value > f.hi {
			return fmt.Errorf("sim: Config.%s is %d, want %d to %d", f.name, f.value, f.lo, f.hi)
		}
	}
	for _, f := range []struct {
		name  string
		value float64
	}{{"Spikes.Chance", c.Spikes.Chance}, {"LossAtDeath", c.LossAtDeath}, {"MoveLoss", c.MoveLoss}} {
		if !(f.value >= 0 && f.value <= 1) { // also refuses NaN
			return fmt.Errorf("sim: Config.%s is %v, want a probability", f.name, f.value)
		}
	}
	if c.MaxTime <= 0 || c.MaxTime > fabric.Time(maxLength/Nanosecond) {
		return fmt.Errorf("sim: Config.MaxTime is %d ns, want 1 to %d", c.MaxTime, maxLength/Nanosecond)
	}
	if c.MaxSteps == 0 {
		return fmt.Errorf("sim: Config.MaxSteps is 0, want at least 1")
	}
	return c.validateLengths()
}

func (c *Config) validateLengths() error {
	type length struct {
		name          string
		value, lo, hi Picos
	}
	lengths := []length{
		{"CPU.PerByte", c.CPU.PerByte, 0, Microsecond},
		{"CPU.EmptyPoll", c.CPU.EmptyPoll, 1, Second},
		{"CPU.Yield", c.CPU.Yield, 1, Second},
		{"Detection.Max", c.Detection.Max, 0, maxLength},
		{"Detection.Min", c.Detection.Min, 0, c.Detection.Max},
		{"Spikes.Max", c.Spikes.Max, 0, maxLength},
		{"Spikes.Min", c.Spikes.Min, 0, c.Spikes.Max},
	}
	if c.Spikes.Chance > 0 {
		lengths = append(lengths, length{"Spikes.Min", c.Spikes.Min, 1, c.Spikes.Max - 1})
	}
	for i, l := range c.Links {
		name := fmt.Sprintf("Links[%d].", i)
		lengths = append(lengths,
			length{name + "Latency", l.Latency, 0, Second},
			length{name + "SendOverhead", l.SendOverhead, 0, Second},
			length{name + "RecvOverhead", l.RecvOverhead, 0, Second},
			length{name + "Gap", l.Gap, 0, Second},
			length{name + "GapPerByte", l.GapPerByte, 0, Microsecond})
	}
	for _, f := range lengths {
		if f.value < f.lo || f.value > f.hi {
			return fmt.Errorf("sim: Config.%s is %d ps, want %d to %d", f.name, f.value, f.lo, f.hi)
		}
	}
	return nil
}
