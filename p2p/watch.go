package p2p

import (
	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
)

// Cancel cancels a receive or probe that has not been matched: it completes with Status.Cancelled.
// It has no effect on other requests. (To cancel a send that has been sent, the receiver would have
// to be asked, and might not answer for long.)
func (e *Engine) Cancel(h Handle) {
	if h.r == nil {
		return
	}
	e.p.Lock()
	defer e.p.Unlock()
	if h = h.awaited(); h.r != nil && h.r.gen == h.gen {
		e.cancel(h.r)
	}
}

// cancel cancels an unmatched request and reports whether it did. Precondition: the lock is held.
func (e *Engine) cancel(r *Request) bool {
	switch {
	case r.Done() && !r.pending || r.kind == reqSend || r.kind == reqPromise || r.from != proc.None:
		return false
	case r.kind == reqRecv:
		e.unpost(r)
	default:
		e.probing.remove(r)
	}
	r.special |= cancelled
	r.Finish()
	return true
}

// State is the progress of a request.
type State uint8

// The states of a request.
const (
	Ended    State = iota // a wait or test has returned its outcome
	Pending               // under way
	Complete              // complete, and not yet returned by a wait or test
	InDoubt               // under way, and a wait would return ft.ErrProcFailedPending
)

// State returns a request's state; that of the zero Handle is Complete. Precondition: the lock is
// held.
func (e *Engine) State(h Handle) State {
	switch {
	case h.r != nil && h.r.gen == h.gen && h.r.pending:
		return InDoubt
	case h.r == nil || h.r.gen == h.gen && h.r.Done():
		return Complete
	case h.r.gen == h.gen:
		return Pending
	}
	return e.stateStale(h)
}

// Poll makes progress once. Precondition: the lock is held.
func (e *Engine) Poll() { e.p.Progress() }

// Watch is a wait for the first of several requests, or for an interruption. It belongs to the
// engine's pool and is used with the lock held.
type Watch struct {
	c    progress.Completion
	done func() // c.Finish, bound once
	e    *Engine
	gen  uint32 // incremented at each reuse
	next *Watch // in the pool

	agreeing []*Comm // of the agreements among the requests
}

// NewWatch takes a watch from the pool. Precondition: the lock is held.
func (e *Engine) NewWatch() *Watch {
	w := e.watches
	if w == nil {
		w = &Watch{e: e}
		w.done = w.c.Finish
		return w
	}
	e.watches = w.next
	return w
}

// Add lets the completion of a request end the wait. Only one watch or goroutine at a time may wait
// for a request.
//
// Precondition: it is Pending.
func (w *Watch) Add(h Handle) {
	r := h.awaited().r
	r.Then(w.done)
	if r.ways&agreement != 0 {
		w.agreeing = append(w.agreeing, r.comm)
		r.comm.beginAgreeing()
	}
}

// Drop undoes Add, unless the request has ended meanwhile.
func (w *Watch) Drop(h Handle) {
	h = h.awaited()
	if h.r != nil && h.r.gen == h.gen {
		h.r.Then(nil)
	}
}

// Wait returns when one of the requests is complete, or after an interruption.
func (w *Watch) Wait() { w.e.p.Wait(&w.c) }

// Free returns the watch to the pool.
func (w *Watch) Free() {
	w.c.Reset()
	for _, c := range w.agreeing {
		c.endAgreeing()
	}
	clear(w.agreeing) // keeps no communicator
	w.agreeing = w.agreeing[:0]
	w.gen++
	w.next = w.e.watches
	w.e.watches = w
}

// Interrupter returns a function that ends the wait and does nothing once the watch has been freed.
// Any goroutine may call it, without the lock.
func (w *Watch) Interrupter() func() {
	e, gen := w.e, w.gen
	return func() {
		e.p.Lock()
		defer e.p.Unlock()
		if w.gen == gen {
			w.c.Finish()
			e.p.Kick() // the goroutine that makes progress may sleep
		}
	}
}

// Host is the clock and scheduler of the process.
func (e *Engine) Host() fabric.Host { return e.p.Host() }

// Abandon ends an unmatched request and reports whether it did; other requests stay as they are, and
// so do those that a goroutine waits for.
//
// Precondition: the lock is held.
func (e *Engine) Abandon(h Handle) bool {
	if w := h.wrapping(); w != nil {
		if w.undecided || !e.Abandon(w.inner) {
			return false
		}
		w.leave()
		return true
	}
	if h.r == nil || h.r.gen != h.gen || h.r.awaited || !e.cancel(h.r) {
		return false
	}
	e.recycle(h.r)
	return true
}

// Stays reports whether an active request cannot be cancelled: it is a send, or belongs to a layer
// above.
//
// Precondition: the lock is held.
func (h Handle) Stays() bool {
	h = h.awaited()
	return h.r.kind == reqSend || h.r.kind == reqPromise
}

// ErrorOf is the error of a wait for an active request with a cause. Precondition: the lock is held.
func (h Handle) ErrorOf(cause error) error { return h.awaited().r.opError(cause) }

// Detach leaves a send, or an operation of a layer above, to the engine, which frees it some time after its completion. Until then the
// engine may read its buffer.
//
// Precondition: the lock is held.
func (e *Engine) Detach(h Handle) {
	if w := h.wrapping(); w != nil {
		if w.undecided {
			e.Detach(w.before)
		}
		e.Detach(w.inner)
		w.leave()
		return
	}
	still := e.detached[:0]
	for _, r := range e.detached {
		if r.Done() {
			e.recycle(r)
		} else {
			still = append(still, r)
		}
	}
	e.detached = append(still, h.r)
}
