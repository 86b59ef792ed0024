package predict

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/banyan-hpc/banyan/coll/tree"
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// Job is an operation on a machine.
type Job struct {
	// Machine is the machine; its Procs are the ranks, dead ones included.
	Machine sim.Config
	// Place returns the process, of Machine, of a rank; nil: the one of the same number.
	Place  func(rank int) int
	Design tree.Design
	Shape  tree.Shape
	// Ranks is their number, 0: as many as the machine has processes. Dead ranks do not take part.
	Ranks int
	Dead  []int
	// Root is the operation's, and lives. Operations without one have it at the lowest living rank.
	Root  int
	Op    Op
	Bytes int
	// Header is the length of the header before the payload of a message.
	Header int
	// Rounds is how often the operation is done; 0 is once.
	Rounds int
	Costs  Costs
}

// Costs are the costs of fault awareness on a core. They are the only difference between designs with the same
// tree.
type Costs struct {
	// Check is for each message of an aware design: may it be sent, may it be received.
	Check sim.Picos
	// Lookup is for each rank that Reroute asks about.
	Lookup sim.Picos
	// Rebuild is for the plan of a rooted operation, for each neighbour: in the paper the plan is made
	// at each call (§4.4).
	Rebuild sim.Picos
}

// Result is the time of a job.
type Result struct {
	// Time is until the last rank has finished the last round.
	Time   sim.Picos
	Rounds int
	// Messages is their number in one round, Depth the longest way from the root in messages, Degree
	// the largest number of children.
	Messages, Depth, Degree int
}

// PerOp is the time of one round.
func (r Result) PerOp() sim.Picos { return r.Time / sim.Picos(r.Rounds) }

var errNoSurvivor = errors.New("predict: no rank survives")

// check completes the job, and returns an error if it makes no sense.
func (j *Job) check() error {
	j.Ranks = cmp.Or(j.Ranks, j.Machine.Procs)
	j.Rounds = max(j.Rounds, 1)
	j.Machine.Procs = max(j.Machine.Procs, j.Ranks)
	switch {
	case j.Ranks < 1 || j.Ranks > proc.MaxIDs:
		return fmt.Errorf("predict: %d ranks, want 1 to %d", j.Ranks, proc.MaxIDs)
	case len(j.Dead) >= j.Ranks:
		return errNoSurvivor
	case j.Bytes < 0 || j.Header < 0:
		return fmt.Errorf("predict: messages of %d bytes", j.Bytes)
	case j.Root < 0 || j.Root >= j.Ranks:
		return fmt.Errorf("predict: root %d, want 0 to %d", j.Root, j.Ranks-1)
	case j.Design == tree.Unaware && len(j.Dead) > 0:
		return errors.New("predict: an unaware tree with dead ranks never ends: " +
			"leave them out, and set Place for the others")
	}
	for _, rank := range j.Dead {
		if rank < 0 || rank >= j.Ranks {
			return fmt.Errorf("predict: dead rank %d, want 0 to %d", rank, j.Ranks-1)
		}
	}
	if _, err := sim.New(j.Machine); err != nil {
		return fmt.Errorf("predict: %w", err)
	}
	return nil
}
