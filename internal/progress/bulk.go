package progress

import (
	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// HandlePlaces registers who says where long payloads go, and is told when they are
// there (fabric.Sink.Place and Placed) and when lent ones are returned. They are
// called with the lock held. Called before the first frame can arrive.
func (e *Engine) HandlePlaces(
	place func(from proc.ID, class fabric.Class, imm uint64, n int) []byte,
	placed func(from proc.ID, class fabric.Class, imm uint64, n int),
	returned func(peer proc.ID, n int),
) {
	for s := range e.sinks {
		s.Place, s.Placed, s.Returned = place, placed, returned
	}
}

const (
	// streamCheck is how many looks at a stream pass between two at who wants the lock,
	// streamLooks how often that is done: ten microseconds in all.
	streamCheck  = 4
	streamChecks = 8
)

// awaitStream is Await for a connection that is read by system calls.
func (e *Engine) awaitStream(ep *Endpoint, class fabric.Class, imm uint64, buf []byte) int {
	if ep.awaiter == nil || e.spins == 0 || ep.awaiter.Received()%awaitFrames == 0 {
		return -1
	}
	for range streamChecks {
		if e.contenders.Load() != 0 {
			return -1
		}
		if n := ep.awaiter.Await(class, imm, buf, streamCheck); n != fabric.NotYet {
			return n
		}
	}
	return -1
}

// TryLend hands over a frame whose payload stays where it is until it is returned.
// Precondition: Lends > 0; else as fabric.Lender.
func (ep *Endpoint) TryLend(class fabric.Class, imm uint64, payload []byte) bool {
	return ep.lender.TryLend(class, imm, payload)
}

// DetachBuffers has the connection let go of all memory that is the application's, for who
// ends operations that are under way.
func (ep *Endpoint) DetachBuffers() {
	if ep.lender != nil {
		ep.lender.DetachBuffers()
	}
}
