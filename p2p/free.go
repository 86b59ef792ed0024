package p2p

import (
	"cmp"
	"fmt"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/internal/progress"
)

// Free ends the communicator: no operation can be started on it any more. Operations under way,
// including unmatched receives and probes, end as if it had not been called; unmatched messages are
// dropped. A second call returns ft.ErrClosed.
func (c *Comm) Free() error {
	e := c.e
	e.p.Lock()
	defer e.p.Unlock()
	if c.state.Load()&stateFreed != 0 {
		return fmt.Errorf("%w: the communicator has been freed before", ft.ErrClosed)
	}
	c.free()
	if c.local != nil {
		c.local.free()
	}
	return nil
}

func (c *Comm) free() {
	e := c.e
	switch w := c.coll.Load(); {
	case c.parent != nil:
	case w != nil:
		w.freeWhenIdle()
	default:
		e.dropContext(c.firstCollContext(), c)
	}
	c.state.Or(stateFreed)
	c.leaveSegment(false)
	c.wakeValidateWaiters()
	e.comms.remove(c)
	e.links.forget(c)
	e.dropContext(c.Context(), cmp.Or(c.parent, c))
	e.answerInquiries()
	if w := c.coll.Load(); c.parent == nil && w != nil {
		e.collFreed(w, false)
	}
}

// OnCollFreed registers the function that is called, with the lock held, when the application has freed a
// communicator, with its communicator of collectives; or, validated, when a validate has replaced that.
func (e *Engine) OnCollFreed(fn func(w *Comm, validated bool)) { e.onCollFreed = fn }

func (e *Engine) collFreed(w *Comm, validated bool) {
	if e.onCollFreed != nil {
		e.onCollFreed(w, validated)
	}
}

// dropContext drops the messages of a context, now and later. It is one of c, or of its collectives.
func (e *Engine) dropContext(ctx uint32, c *Comm) {
	e.freed.add(ctx, c)
	delete(e.revoked.known, ctx)
	e.dropUnexpected(ctx)
}

// dropUnexpected drops the unexpected messages of a context.
func (e *Engine) dropUnexpected(ctx uint32) {
	for m := e.unexpected.oldest; m != nil; {
		next := m.younger
		if uint32(m.imm>>32) == ctx {
			e.unexpected.remove(m)
			e.discard(m)
		}
		m = next
	}
}

// freedContexts remembers the contexts of the communicators that were freed last, so that late
// messages are dropped and late revocations are forwarded. An older context counts as one that will
// still be made here.
type freedContexts struct {
	known map[uint32]freed
	order []uint32 // a ring
	next  int
}

// freed is a freed communicator, or the parent of one of collectives, and its place in the ring.
type freed struct {
	c  *Comm
	at int
}

const freedMax = 1024

func (f *freedContexts) add(ctx uint32, c *Comm) {
	if f.known == nil {
		f.known = make(map[uint32]freed)
	}
	if len(f.order) < freedMax {
		f.order = append(f.order, 0)
	} else if oldest := f.order[f.next]; f.known[oldest].at == f.next { // not freed again since
		delete(f.known, oldest)
	}
	f.order[f.next], f.known[ctx] = ctx, freed{c, f.next}
	f.next = (f.next + 1) % freedMax
}

// unwanted reports whether a message is for a freed or revoked communicator.
func (e *Engine) unwanted(imm uint64) bool { return e.wasFreed(imm) || e.wasRevoked(imm) }

// wasFreed reports whether a message is for a freed communicator.
func (e *Engine) wasFreed(imm uint64) bool {
	if len(e.freed.known) == 0 {
		return false
	}
	ctx := uint32(imm >> 32)
	_, ok := e.freed.known[ctx]
	return ok && !e.contextInUse(ctx)
}

// discard ends a message that is in no list and that no receive will match. The sender of an
// announcement gets a Fin as if the data had been pulled or, if the communicator has been revoked,
// flowRevoked: a synchronous send must not pass for matched. A message that is still arriving is
// dropped when it is complete.
func (e *Engine) discard(m *message) {
	e.unkept(m)
	switch {
	case m.rts:
		m.link.waiting--
		switch {
		case m.link.ep.State != progress.Alive || m.link.shut:
		case e.wasRevoked(m.imm):
			e.control(m.link, fabric.ClassFlow, flowRevoked, appendUint64(e.scratch[:0], m.remote))
		default:
			e.control(m.link, fabric.ClassFin, m.remote, nil)
		}
	case m.got < m.total && m.link != nil && m.link.in == m:
		if !m.placed {
			e.unexpected.dropData(m)
		}
		m.orphan = true
		return
	}
	e.unexpected.release(m)
}

// holder returns the communicator that has a context, for collectives or otherwise: one that has
// not been freed, or one on which receives or probes still wait.
//
// Precondition: the lock is held.
func (e *Engine) holder(ctx uint32) (c *Comm) {
	const coll = collContext << 32
	want := uint64(ctx)<<32 | coll
	if c := e.comms.find(want, coll); c != nil {
		return c
	}
	look := func(r *Request) {
		if r.comm.ctx|coll == want {
			c = r.comm
		}
	}
	e.posted.all(look)
	e.probing.all(look)
	return c
}

// errFinal is the error of operations on a closed engine.
var errFinal = fmt.Errorf("%w: the library has been finalized", ft.ErrClosed)

// Close ends all operations, current and future, with ft.ErrClosed.
func (e *Engine) Close() { e.CloseFor(errFinal) }

// CloseFor is Close with a given error.
func (e *Engine) CloseFor(why error) {
	e.p.Lock()
	defer e.p.Unlock()
	e.closed, e.closedErr = true, why
	for c := range e.comms.all() {
		c.state.Or(stateFinal)
		c.wakeValidateWaiters()
		c.leaveSegment(true)
	}
	e.p.Kick() // wakes waits in shared memory
	final := func(*Request) error { return why }
	for l := range e.links.all() {
		l.shut = true
		e.dropQueue(l)
		l.ep.DetachBuffers()
		l.failActive(final)
		e.dropArriving(l)
	}
	e.posted.all(func(r *Request) {
		e.unpost(r)
		r.fail(why)
	})
	for _, q := range []*bin{&e.probing, &e.promises} {
		q.all(func(r *Request) {
			q.remove(r)
			r.fail(why)
		})
	}
}
