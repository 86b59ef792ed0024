package p2p

import (
	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// An announced send ends when its receiver answers. If its collective has failed or its
// communicator has been revoked, the receiver may have left it and not answer. But the receiver may
// also be pulling the data, so the buffer cannot be released without asking. So the sender
// withdraws the announcement: the receiver drops it and confirms, or answers as usual if the
// message has been matched.

// withdrawCollectives ends, under run-through stabilization, the unmatched sends of collectives in
// the communicators that contain the failed process.
func (e *Engine) withdrawCollectives(failed proc.ID) {
	e.withdraw(failed, func(r *Request) error {
		if r.comm.parent == nil || !r.comm.has(failed) || r.endsWithPeerOnly() {
			return nil
		}
		return r.comm.failedMembersError()
	})
}

// withdraw withdraws the announced sends, and ends the held ones, for which why returns an error,
// except those to one peer.
func (e *Engine) withdraw(but proc.ID, why func(*Request) error) {
	if e.active == 0 {
		return // each link is a cache line
	}
	for l := range e.links.all() {
		if l.active != nil && l.peer != but {
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
		if err := why(r); err != nil {
			r.err = r.opError(err)
			e.control(l, fabric.ClassFlow, flowWithdraw, appendUint64(e.scratch[:0], r.wire()))
		}
	}
}

// dropHeld ends the held sends for which why returns an error.
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

// onWithdraw drops the announcement with that name, unless a receive has taken it.
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
