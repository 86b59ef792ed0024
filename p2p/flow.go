package p2p

import (
	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
)

// Flow control of unexpected messages. The transport's credit bounds the messages in flight, not
// those that a receiver has accepted without a receive. This file bounds the latter, per sender, in
// units of bytes plus perMessage for each message:
//
//   - A sender may spend two chunks. When it starts the second one it asks for another, in the
//     stream of its messages. The receiver grants it at once or, if it keeps more than a chunk of
//     unexpected messages of this sender, when enough of them have been received. So it never keeps
//     more than three chunks of one sender, plus the remainder of a chunk at the time the next one
//     was started.
//   - The sender's limits set the size of a chunk. Above fairChunk the receiver's limits bound it
//     too; grants carry them.
//   - A sender that has spent everything announces its messages, with any length, and keeps
//     the data. An announcement also takes memory at the receiver, so at most maxAnnounced may be
//     unanswered; later sends are held.
//
// The receiver counts its kept bytes. A sender that exceeds the bounds is cut off as corrupt: it
// holds the job's secret, but it is faulty or hostile. The same applies to too many announcements,
// and to too many answers that a peer asks for and does not read; see [Engine.cutOff].
//
// The cost is one subtraction per message at the sender, before it writes to the transport, and
// nothing at the receiver of an expected message, since the request in the stream carries all
// information.
//
// The bound has a consequence: a receiver that waits for a message which was sent after more than
// maxAnnounced unreceived ones waits for ever.

// The immediates of [fabric.ClassFlow].
const (
	flowAsk       = iota
	flowGrant     // with the size of a chunk by the receiver's limits
	flowWithdraw  // with the announcement's name: the sender withdraws it
	flowWithdrawn // with the same: no receive has matched it, and none will
	flowRevoked   // with the same: none will, since its communicator has been revoked
	flowInquire   // with a stream's name: the sender waits there and knows of a failure (giveup.go)
	flowGaveUp    // with the same: the sender sends nothing more there
)

const (
	// perMessage is the cost of a kept message besides its bytes: the record and the smallest
	// buffer.
	perMessage   = 256
	maxAnnounced = 4096
	// fairChunk is the largest chunk that a sender may use before it knows the receiver's limits.
	fairChunk = 2 << 20
	// maxAnswers bounds the control frames that wait for credit, but for inquiries and the answers to
	// them (giveup.go). A correct peer causes fewer: an answer to each of its announcements, and an
	// announcement and a withdrawal for each of ours.
	maxAnswers = 4*maxAnnounced + 64
)

// chunk is the size of a chunk: half of the limit, but room for two messages of the eager limit.
func (l Limits) chunk(eager int) int {
	limit := l.Unexpected
	if limit == 0 {
		limit = DefaultUnexpected
	}
	return max(limit/2, 2*(eager+perMessage))
}

// charge spends the cost of an eager message of n bytes, or returns false.
func (e *Engine) charge(l *link, n int) bool {
	cost := n + perMessage
	if l.budget < cost {
		if l.spareChunk == 0 || cost > l.portion {
			return false
		}
		l.spareChunk--
		l.budget += l.portion
		e.control(l, fabric.ClassFlow, flowAsk, nil)
	}
	l.budget -= cost
	return true
}

// mostKept is the most that is kept of a correct sender: at most one of this process's chunks at
// the time of a grant, then two of the sender's chunks and the remainder of one before.
func (l *link) mostKept() int { return l.chunk + 3*max(l.chunk, fairChunk) }

// admits reports whether one more unexpected message of l's peer may be kept. If not, the peer is
// cut off.
func (e *Engine) admits(l *link, n int) bool {
	if l.kept+n+perMessage > l.mostKept() {
		e.cutOff(l)
	}
	return !l.cutOff
}

// cutOff reports a peer as corrupt that sends more than it may, which no correct process does.
// Messages that it sends until its end is known are not kept.
//
// Precondition: the lock is held. Poll's callbacks may call it.
func (e *Engine) cutOff(l *link) {
	e.refused++
	if !l.cutOff {
		l.cutOff = true
		e.p.Report(l.peer, proc.Cause{Kind: proc.Corrupt})
	}
}

// kept counts an unexpected message.
func (m *message) kept(l *link) {
	m.link, m.cost = l, m.total+perMessage
	l.kept += m.cost
}

// unkept undoes kept, once.
func (e *Engine) unkept(m *message) {
	if m.cost == 0 {
		return
	}
	m.link.kept -= m.cost
	m.cost = 0
	e.grant(m.link)
}

// grant grants the chunks that the sender has asked for, if there is room.
func (e *Engine) grant(l *link) {
	for ; l.asked > 0 && l.kept <= l.chunk && l.ep.State == progress.Alive; l.asked-- {
		e.control(l, fabric.ClassFlow, flowGrant, appendUint64(e.scratch[:0], uint64(l.chunk)))
	}
}

func (e *Engine) onFlow(from proc.ID, imm uint64, payload []byte) {
	ep := e.p.Lookup(from)
	name, named := decodeHandle(payload) // of a request; in a grant, the size of a chunk
	if ep == nil || named != (imm != flowAsk) {
		e.refused++
		return
	}
	switch l := e.linkFor(ep); {
	case imm == flowWithdraw:
		e.onWithdraw(l, name)
	case imm == flowWithdrawn && e.unmatched(name, l) != nil && e.unmatched(name, l).err != nil:
		r := e.unmatched(name, l)
		e.endAnnouncement(l, r)
		r.Finish()
	case imm == flowRevoked && e.unmatched(name, l) != nil:
		e.onRejected(l, e.unmatched(name, l))
	case imm == flowInquire:
		e.onInquiry(l, collStreamNamed(name))
	case imm == flowGaveUp:
		e.onGaveUp(l, collStreamNamed(name))
	case imm == flowAsk && l.asked < 2:
		l.asked++
		e.grant(l)
	case imm == flowGrant && l.spareChunk == 0:
		l.spareChunk++
		l.portion = min(l.chunk, max(fairChunk, int(min(name, maxMessage))))
		e.unhold(l)
	default:
		e.refused++
	}
}

// issue sends a request as its length and the flow control demand. It returns false if the message
// must be announced and too many are.
func (e *Engine) issue(l *link, r *Request, imm uint64, how manner) bool {
	n := len(r.buf)
	switch {
	case how > ahead || !(how == ahead && l.limit == 0 && l.ep.Ahead(n)) && !l.eager(r.buf) || !e.charge(l, n):
		if l.announced == maxAnnounced {
			return false
		}
		e.sendRendezvous(l, r, imm, how)
	case n > l.ep.MaxFrame:
		e.control(l, fabric.ClassFirst, imm, appendUint64(e.scratch[:0], uint64(n)))
		e.data(l, r, fabric.ClassFrag, 0, true)
	default:
		e.data(l, r, fabric.ClassEager, imm, false)
	}
	return true
}

// hold queues a send that must not be sent yet.
func (e *Engine) hold(l *link, r *Request, imm uint64, how manner) {
	o := e.newOp()
	o.req, o.imm, o.how, o.next = r, imm, how, nil
	l.addActive(r)
	if l.held == nil {
		l.held = o
	} else {
		l.lastHeld.next = o
	}
	l.lastHeld = o
	l.open()
}

// unhold sends the held sends that may be sent now.
func (e *Engine) unhold(l *link) {
	for l.held != nil {
		o := l.held
		l.removeActive(o.req)
		if !e.issue(l, o.req, o.imm, o.how) {
			l.addActive(o.req)
			return
		}
		l.held = o.next
		e.freeOp(o)
	}
	l.open()
}

// endAnnouncement removes a send from the unanswered ones.
func (e *Engine) endAnnouncement(l *link, r *Request) {
	r.announced = false
	l.removeActive(r)
	l.announced--
	e.unhold(l)
}
