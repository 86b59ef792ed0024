package p2p

import (
	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// A send that has been announced ends when its receiver answers. If it belongs to
// a collective that has failed, or to a communicator that has been revoked, the receiver may have left that, and will not
// answer; but it may also be pulling the data at this moment, so the buffer cannot
// be given back without asking. The sender withdraws the announcement: the
// receiver forgets it and says so, or, if it has been matched, answers as always.

// withdrawCollectives withdraws, in run-through stabilization, what collectives have announced in the communicators that
// the dead belongs to, and ends what they have not announced yet.
func (e *Engine) withdrawCollectives(dead proc.ID) {
	e.withdraw(dead, func(r *Request) error {
		if !r.inCollectiveWith(dead) || r.endsWithPeerOnly() {
			return nil
		}
		return r.comm.failedMembersError(r.kind.String())
	})
}

// withdraw withdraws the announced sends for which why has an error, and ends those of them that
// have not been announced yet, but for those to one peer.
func (e *Engine) withdraw(but proc.ID, why func(*Request) error) {
	if e.active == 0 {
		return // each link is a cache line
	}
	for _, page := range e.links {
		for i := 0; page != nil && i < linkPage; i++ {
			l := page[i]
			if l == nil || l.active == nil || l.peer == but {
				continue
			}
			e.withdrawFrom(l, why)
		}
	}
}

// withdrawFrom is withdraw of the sends to one peer.
func (e *Engine) withdrawFrom(l *link, why func(*Request) error) {
	e.dropHeld(l, why)
	for r := l.active; r != nil; r = r.next {
		if !r.announced || r.err != nil {
			continue
		}
		if r.err = why(r); r.err != nil {
			e.control(l, fabric.ClassFlow, flowWithdraw, appendUint64(e.scratch[:0], r.wire()))
		}
	}
}

// inCollectiveWith reports whether a request carries a collective's message in a
// communicator that the process belongs to.
func (r *Request) inCollectiveWith(p proc.ID) bool { return r.comm.parent != nil && r.comm.has(p) }

// dropHeld ends the held sends for which why has an error.
func (e *Engine) dropHeld(l *link, why func(*Request) error) {
	o := l.held
	l.held, l.lastHeld = nil, nil
	for o != nil {
		next := o.next
		o.next = nil
		switch err := why(o.req); {
		case err != nil:
			l.removeActive(o.req)
			o.req.fail(err)
			e.freeOp(o)
		case l.held == nil:
			l.held, l.lastHeld = o, o
		default:
			l.lastHeld.next = o
			l.lastHeld = o
		}
		o = next
	}
	l.open()
}

// onWithdraw drops the announcement of that name, unless a receive has taken it.
func (e *Engine) onWithdraw(l *link, name uint64) {
	for m := e.unexpected.oldest; m != nil; m = m.younger {
		if m.rts && m.link == l && m.remote == name {
			e.unexpected.remove(m)
			l.waiting--
			e.unexpected.release(m)
			e.control(l, fabric.ClassFlow, flowWithdrawn, appendUint64(e.scratch[:0], name))
			return
		}
	}
}
