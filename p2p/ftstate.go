package p2p

import (
	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
)

// ftState is what few communicators need: it takes no memory of the others. It is read and written with the lock held.
type ftState struct {
	order           []proc.ID // see acknowledge.go
	acknowledged    []proc.ID // the same; nil: nobody has asked
	nulls           ft.Set    // the same; Comm.someNull is set after it
	validating      int       // see validate.go
	validateWaiters []*progress.Completion
	// partly counts the communicators derived from this one by some of its members since the last validate, by tag and group.
	partly map[uint64]uint32
	// running has the tags of collectives that have been joined and not quit, away how many agreements are being waited for; see giveup.go.
	running  []uint32
	agreeing int
}

// mutableFT gives what there is to be written. Precondition: the lock is held.
func (c *Comm) mutableFT() *ftState {
	if c.ftState == nil {
		c.ftState = &ftState{partly: make(map[uint64]uint32)}
	}
	return c.ftState
}

// readFT gives what there is to be read. Precondition: the lock is held.
func (c *Comm) readFT() ftState {
	if c.ftState == nil {
		return ftState{}
	}
	return *c.ftState
}
