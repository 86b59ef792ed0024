package p2p

import (
	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/proc"
	"github.com/banyan-hpc/banyan/progress"
)

// Flow control of unexpected messages. The transport's credit bounds what is
// under way, not what a receiver has taken in without a receive for it. That is
// bounded here, per sender, in units of bytes plus perMessage for each message:
//
//   - A sender may spend two chunks. When it has spent one and takes the next it
//     asks for another, in the stream of its messages. The receiver answers at
//     once, or, if it keeps more than a chunk of unexpected messages from this
//     sender, when enough of them have been received. So it never keeps more
//     than three chunks from one sender.
//   - A sender that has spent all announces its messages, of any length; they
//     wait at home. Announcements are records at the receiver too, so no more
//     than maxAnnounced may be unanswered; later sends wait in line.
//
// Counting costs the sender of a message one subtraction, before it writes to
// the transport, and the receiver of an expected one nothing: the question in
// the stream tells it all.
//
// What the bound costs: a receiver that waits for a message which was sent after
// more than maxAnnounced others that it does not receive waits for ever.

// The immediates of [fabric.ClassFlow].
const (
	flowAsk = iota
	flowGrant
	flowWithdraw  // with the announcement's name: I do not want to send this any more
	flowWithdrawn // with the same: nobody here has taken it, and nobody will
	flowRevoked   // with the same: nobody will, since its communicator has been revoked
)

const (
	// perMessage is what keeping a message costs besides its bytes: the record,
	// and the smallest buffer.
	perMessage   = 256
	maxAnnounced = 4096
)

// chunk gives the size of a chunk: half of the limit, but room for two messages
// of the eager limit.
func (l Limits) chunk(eager int) int {
	limit := l.Unexpected
	if limit == 0 {
		limit = DefaultUnexpected
	}
	return max(limit/2, 2*(eager+perMessage))
}

// charge takes an eager message of n bytes from what the sender may spend; false
// if there is not enough.
func (e *Engine) charge(l *link, n int) bool {
	cost := n + perMessage
	if l.room < cost {
		if l.spare == 0 {
			return false
		}
		l.spare--
		l.room += l.chunk
		e.control(l, fabric.ClassFlow, flowAsk, nil)
	}
	l.room -= cost
	return true
}

// kept counts an unexpected message in.
func (m *message) kept(l *link) {
	m.link, m.cost = l, m.total+perMessage
	l.kept += m.cost
}

// unkept counts it out again, once.
func (e *Engine) unkept(m *message) {
	if m.cost == 0 {
		return
	}
	m.link.kept -= m.cost
	m.cost = 0
	e.grant(m.link)
}

// grant answers what the sender has asked for, if there is room.
func (e *Engine) grant(l *link) {
	for ; l.asked > 0 && l.kept <= l.chunk && l.ep.State == progress.Alive; l.asked-- {
		e.control(l, fabric.ClassFlow, flowGrant, nil)
	}
}

func (e *Engine) onFlow(from proc.ID, imm uint64, payload []byte) {
	ep := e.p.Known(from)
	name, named := decodeHandle(payload)
	if ep == nil || named != (imm >= flowWithdraw) {
		e.refused++
		return
	}
	switch l := e.adopt(ep); {
	case imm == flowWithdraw:
		e.forget(l, name)
	case imm == flowWithdrawn && e.announced(name, l) != nil && e.announced(name, l).err != nil:
		r := e.announced(name, l)
		e.answered(l, r)
		r.Finish()
	case imm == flowRevoked && e.announced(name, l) != nil:
		e.rejected(l, e.announced(name, l))
	case imm == flowAsk && l.asked < 2:
		l.asked++
		e.grant(l)
	case imm == flowGrant && l.spare == 0:
		l.spare++
		e.unhold(l)
	default:
		e.refused++
	}
}

// issue sends a request in the way that its length and the flow control ask for.
// False: it has to be announced, and too many are.
func (e *Engine) issue(l *link, r *Request, imm uint64, synchronous bool) bool {
	n := len(r.buf)
	switch {
	case synchronous || !l.eager(n) || !e.charge(l, n):
		if l.announced == maxAnnounced {
			return false
		}
		e.sendRendezvous(l, r, imm)
	case n > l.ep.MaxFrame:
		e.control(l, fabric.ClassFirst, imm, appendUint64(e.scratch[:0], uint64(n)))
		e.data(l, r, fabric.ClassFrag, 0, true)
	default:
		e.data(l, r, fabric.ClassEager, imm, false)
	}
	return true
}

// hold puts a send at the end of the line of those that may not go out yet.
func (e *Engine) hold(l *link, r *Request, imm uint64, synchronous bool) {
	o := e.newOp()
	o.req, o.imm, o.synchronous, o.next = r, imm, synchronous, nil
	l.attend(r)
	if l.held == nil {
		l.held = o
	} else {
		l.lastHeld.next = o
	}
	l.lastHeld = o
	l.open()
}

// unhold sends from the line what may go out now.
func (e *Engine) unhold(l *link) {
	for l.held != nil {
		o := l.held
		l.leave(o.req)
		if !e.issue(l, o.req, o.imm, o.synchronous) {
			l.attend(o.req)
			return
		}
		l.held = o.next
		e.freeOp(o)
	}
	l.open()
}

// answered counts an announcement out.
func (e *Engine) answered(l *link, r *Request) {
	r.announced = false
	l.leave(r)
	l.announced--
	e.unhold(l)
}
