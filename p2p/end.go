package p2p

import (
	"errors"
	"fmt"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
)

var errNoOtherRank = fmt.Errorf("%w: no other rank is left", ft.ErrDeparted)

func isPeerGone(err error) bool { return errors.Is(err, fabric.ErrPeerGone) }

// onEnd is called when a peer has failed or departed: everything that needs the peer completes with
// an error, once.
func (e *Engine) onEnd(ep *progress.Endpoint, cause proc.Cause) {
	l := e.findLink(ep.Proc)
	if l == nil { // nothing is under way with it; linkFor makes the link when an operation names it
		l = &link{peer: ep.Proc, ep: ep}
	}
	l.open()
	if cause.Failed() {
		e.markComms(ep.Proc)
		e.revokeByRange()
		e.withdrawCollectives(ep.Proc)
	}
	e.dropQueue(l)
	l.failActive(func(r *Request) error {
		e.noteFailed(r)
		return r.comm.peerEndedError(l)
	})
	e.dropArriving(l)
	e.posted.all(func(r *Request) {
		if err := r.impossibleAfter(l, cause); err != nil {
			e.unpost(r)
			e.noteFailed(r)
			r.fail(err)
		} else if r.inDoubtAfter(l, cause) {
			r.suspend()
		}
	})
	e.probing.all(func(r *Request) {
		err := r.impossibleAfter(l, cause)
		if err == nil && r.inDoubtAfter(l, cause) {
			err = r.comm.unacknowledgedError(false)
		}
		if err != nil {
			e.probing.remove(r)
			r.fail(err)
		}
	})
	e.giveUpFailed()
	e.inquiries.pending.removeIf(func(q inquiry) bool { return q.from == l })
	if cause.Failed() {
		e.inquireAll(ep.Proc)
	}
}

// markComms sends operations to the slow path in every communicator that contains a failed process.
func (e *Engine) markComms(failed proc.ID) {
	for c := range e.comms.all() {
		if c.has(failed) {
			c.state.Or(stateFailed)
		}
	}
}

// failActive ends the requests under way with the peer. One whose buffer is being copied into
// without the lock ends with the copy (donePull), or with that of the peer (awaitQuiet).
func (l *link) failActive(why func(*Request) error) {
	for r := l.active; r != nil; {
		next := r.next
		if r.err == nil && !r.settled { // else it ends without an error
			r.err = r.opError(why(r))
		}
		switch {
		case r.busy:
		case r.shared:
			awaitQuiet(r)
		default:
			l.removeActive(r)
			r.Finish()
		}
		r = next
	}
}

// impossibleAfter is the error of an unmatched receive or probe that cannot be matched any more
// after the end of l's peer; else nil.
func (r *Request) impossibleAfter(l *link, cause proc.Cause) error {
	switch {
	case r.src == l.peer:
		return r.comm.peerEndedError(l)
	case r.comm.parent != nil && cause.Failed() && r.comm.has(l.peer) && !r.endsWithPeerOnly():
		// A collective needs all members, for any source of this receive (Hursey & Graham §3.2).
		return r.comm.peerEndedError(l)
	case r.src != proc.None || r.comm.peers.Rank(l.peer) < 0 || cause.Failed():
		return nil
	}
	return r.comm.wildcardImpossible()
}

// dropQueue drops queued frames, held sends and loans; their requests are among the active ones.
func (e *Engine) dropQueue(l *link) {
	for l.first != nil {
		o := l.first
		l.first = o.next
		o.handedOver.Complete(nil)
		e.freeOp(o)
	}
	for l.held != nil {
		o := l.held
		l.held = o.next
		e.freeOp(o)
	}
	l.loans = loans{}
	l.open()
}

// dropArriving drops the message that will not arrive completely, and announcements whose data are
// lost with the sender.
func (e *Engine) dropArriving(l *link) {
	if m := l.in; m != nil {
		l.in = nil
		switch {
		case m.orphan:
			e.unexpected.release(m)
		case m.claimed: // its receive returns the error
		case m.req == nil:
			e.unexpected.remove(m)
			e.unkept(m)
			fallthrough
		default:
			e.unexpected.release(m)
		}
	}
	for m := e.unexpected.oldest; m != nil; {
		next := m.younger
		if m.rts && m.from == l.peer {
			e.unexpected.remove(m)
			e.discard(m)
		}
		m = next
	}
}
