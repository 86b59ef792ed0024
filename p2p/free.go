package p2p

import (
	"fmt"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/internal/progress"
)

// Free ends the communicator: no operation can be begun on it any more. Those
// under way, receives and probes that wait for a match among them, end as if it
// had not been called; messages that have arrived and that none of them takes are
// dropped. A second call is ft.ErrClosed.
func (c *Comm) Free() error {
	e := c.e
	e.p.Lock()
	defer e.p.Unlock()
	if c.state.Load()&stateFreed != 0 {
		return fmt.Errorf("free of %s: %w: the communicator has been freed before", c.name, ft.ErrClosed)
	}
	c.free()
	if c.local != nil {
		c.local.free()
	}
	return nil
}

func (c *Comm) free() {
	e, known := c.e, c
	switch w := c.coll.Load(); {
	case c.of != nil:
		known = nil // what it holds can go: it is revoked with the other one
	case w != nil:
		w.leave()
	default:
		e.forgetContext(c.firstColl(), nil)
	}
	c.state.Or(stateFreed)
	c.leaveSegment(false)
	c.settled()
	e.comms.remove(c.handle)
	e.forgetContext(c.Context(), known)
	e.answerAll()
}

// forgetContext drops what has come for a context, and what comes.
func (e *Engine) forgetContext(ctx uint32, known *Comm) {
	e.freed.add(ctx, known)
	delete(e.revoked.known, ctx)
	e.forgetEarly(ctx)
}

// forgetEarly drops what has come for a context and nobody has received.
func (e *Engine) forgetEarly(ctx uint32) {
	for m := e.early.oldest; m != nil; {
		next := m.younger
		if uint32(m.imm>>32) == ctx {
			e.early.remove(m)
			e.discard(m)
		}
		m = next
	}
}

// freedContexts remembers the communicators that were freed last by their contexts,
// so that messages that come late are dropped and their revocation is passed on. One that is older than that is
// taken for a context that will be made here yet.
type freedContexts struct {
	known map[uint32]freed
	order []uint32 // a ring
	next  int
}

// freed is a communicator that was freed, nil if it carried collectives, and its place in the ring.
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
	} else if oldest := f.order[f.next]; f.known[oldest].at == f.next { // not freed once more since
		delete(f.known, oldest)
	}
	f.order[f.next], f.known[ctx] = ctx, freed{c, f.next}
	f.next = (f.next + 1) % freedMax
}

// unwanted reports whether a message is for a communicator that has been freed or
// revoked.
func (e *Engine) unwanted(imm uint64) bool { return e.wasFreed(imm) || e.wasRevoked(imm) }

// wasFreed reports whether a message is for a communicator that has been freed.
func (e *Engine) wasFreed(imm uint64) bool {
	if len(e.freed.known) == 0 {
		return false
	}
	ctx := uint32(imm >> 32)
	_, ok := e.freed.known[ctx]
	return ok && !e.uses(ctx)
}

// discard ends a message that is in no list and that nobody will receive. A
// sender that has announced it is told that it has been pulled, or, if the
// communicator has been revoked, that it will not be: a synchronous send must not pass for matched.
// What is still arriving goes on to, and is dropped when it is whole.
func (e *Engine) discard(m *message) {
	e.unkept(m)
	switch {
	case m.rts:
		m.link.waiting--
		switch {
		case m.link.ep.State != progress.Alive || m.link.closed:
		case e.wasRevoked(m.imm):
			e.control(m.link, fabric.ClassFlow, flowRevoked, appendUint64(e.scratch[:0], m.remote))
		default:
			e.control(m.link, fabric.ClassFin, m.remote, nil)
		}
	case m.got < m.total && m.link != nil && m.link.in == m:
		if !m.placed {
			e.early.dropData(m)
		}
		m.orphan = true
		return
	}
	e.early.release(m)
}

// holder gives the communicator that has a context, for collectives or otherwise: one that has not
// been freed, or one on which receives or probes still wait. Precondition: the lock is held.
func (e *Engine) holder(ctx uint32) (c *Comm) {
	const coll = collContext << 32
	want := uint64(ctx)<<32 | coll
	if c := e.comms.with(want, coll); c != nil {
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

// errFinal is what operations of an engine end with that has been closed.
var errFinal = fmt.Errorf("%w: the library has been finalized", ft.ErrClosed)

// Close ends all operations with ft.ErrClosed: those under way, and those that are
// begun from now on.
func (e *Engine) Close() { e.CloseFor(errFinal) }

// CloseFor is Close with another error.
func (e *Engine) CloseFor(why error) {
	e.p.Lock()
	defer e.p.Unlock()
	e.closed, e.over = true, why
	for c := range e.comms.all() {
		c.state.Or(stateFinal)
		c.settled()
		c.leaveSegment(true)
	}
	e.p.Kick() // ranks that wait in a segment
	final := func(r *Request) error {
		return fmt.Errorf("%v on %s: %w", r.kind, r.comm.name, e.over)
	}
	for _, page := range e.links {
		for i := 0; page != nil && i < linkPage; i++ {
			if l := page[i]; l != nil {
				l.closed = true
				e.dropQueue(l)
				l.ep.Forsake()
				l.endActive(final)
				e.dropArriving(l)
			}
		}
	}
	e.posted.all(func(r *Request) {
		e.unpost(r)
		r.fail(final(r))
	})
	for _, q := range []*bin{&e.probing, &e.promised} {
		q.all(func(r *Request) {
			q.remove(r)
			r.fail(final(r))
		})
	}
}
