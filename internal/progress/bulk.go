package progress

import (
	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// HandlePlaces registers the functions that choose the buffer of a long payload, that learn that it
// is complete (fabric.Sink.Place and Placed), and that learn that lent payloads are returned. They
// are called with the lock held. Call it before the first frame can arrive.
func (e *Engine) HandlePlaces(
	place func(from proc.ID, class fabric.Class, imm uint64, n int) []byte,
	placed func(from proc.ID, class fabric.Class, imm uint64, n int),
	returned func(peer proc.ID, n int),
) {
	for s := range e.sinks {
		s.Place, s.Placed, s.Returned = place, placed, returned
	}
}

// HandleMoves registers the function that learns of the end of moves (fabric.Sink.Moved), as HandlePlaces does.
func (e *Engine) HandleMoves(moved func(peer proc.ID, n int, lost bool)) {
	for s := range e.sinks {
		s.Moved = moved
	}
}

// HandleFetches registers the function that learns of the end of reads (fabric.Sink.Fetched), as HandlePlaces does.
func (e *Engine) HandleFetches(fetched func(peer proc.ID, token uint64, err error)) {
	for s := range e.sinks {
		s.Fetched = fetched
	}
}

const (
	// streamCheck is the number of polls of a stream between two checks of the lock's contenders,
	// streamChecks the number of checks: ten microseconds in all.
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

// TryLend sends a frame whose payload stays in place until it is returned. Precondition: Lends > 0;
// else as fabric.Lender.
func (ep *Endpoint) TryLend(class fabric.Class, imm uint64, payload []byte) bool {
	return ep.lender.TryLend(class, imm, payload)
}

// DetachBuffers makes the connection release all memory of the application, when operations in
// progress are abandoned.
func (ep *Endpoint) DetachBuffers() {
	if ep.lender != nil {
		ep.lender.DetachBuffers()
	}
	if ep.fetcher != nil {
		ep.fetcher.EndFetches()
	}
}
