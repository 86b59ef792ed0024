package p2p

import (
	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
)

// ftState is the state that few communicators need; the others do without its memory. The lock
// guards it.
type ftState struct {
	order           []proc.ID // see acknowledge.go
	acknowledged    []proc.ID // the same; nil: not asked for yet
	nulls           ft.Set    // the same; Comm.someNull is set after it
	validating      int       // see validate.go
	validateWaiters []*progress.Completion
	turns, over     uint32 // see turn.go: started and ended
	afterTurns      []afterTurn
	// partly counts the communicators derived from this one by some of its members since the last
	// validate, by tag and group.
	partly map[uint64]uint32
	// running has the tags of the collectives under way, agreeing the number of agreements that are
	// waited for; see giveup.go.
	running  []uint32
	agreeing int
}

// mutableFT allocates the state at the first call. Precondition: the lock is held.
func (c *Comm) mutableFT() *ftState {
	if c.ftState == nil {
		c.ftState = new(ftState)
	}
	return c.ftState
}

// readFT returns the state for reading. Precondition: the lock is held.
func (c *Comm) readFT() ftState {
	if c.ftState == nil {
		return ftState{}
	}
	return *c.ftState
}
