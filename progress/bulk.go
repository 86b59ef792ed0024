package progress

import (
	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/proc"
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

// TryLend hands over a frame whose payload stays where it is until it is returned.
// Precondition: Lends > 0; else as fabric.Lender.
func (ep *Endpoint) TryLend(class fabric.Class, imm uint64, payload []byte) bool {
	return ep.lender.TryLend(class, imm, payload)
}

// Forsake has the connection let go of all memory that is the application's, for who
// ends operations that are under way.
func (ep *Endpoint) Forsake() {
	if ep.lender != nil {
		ep.lender.Forsake()
	}
}
