package p2p

import (
	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
)

// Flow control of unexpected messages. The transport's credit bounds what is
// under way, not what a receiver has taken in without a receive for it. That is
// bounded here, per sender, in units of bytes plus perMessage for each message:
//
//   - A sender may spend two chunks. When it has spent one and takes the next it
//     asks for another, in the stream of its messages. The receiver answers at
//     once, or, if it keeps more than a chunk of unexpected messages from this
//     sender, when enough of them have been received. So it never keeps more
//     than three chunks from one sender, and what remained of a chunk when the next was taken.
//   - How much a chunk is the sender's limits say. More than fairChunk it is
//     only as far as the receiver's limits do too: its answers say its own.
//   - A sender that has spent all announces its messages, of any length; they
//     wait at home. Announcements are records at the receiver too, so no more
//     than maxAnnounced may be unanswered; later sends wait in line.
//
// The receiver counts what it keeps, and a sender that exceeds this is cut off as
// corrupt: it has the secret of the job, and has lost its senses or is not one of us. The same
// holds for more announcements, and for more answers that it has asked for and does not
// take: see [Engine.excess].
//
// Counting costs the sender of a message one subtraction, before it writes to
// the transport, and the receiver of an expected one nothing: the question in
// the stream tells it all.
//
// What the bound costs: a receiver that waits for a message which was sent after
// more than maxAnnounced others that it does not receive waits for ever.

// The immediates of [fabric.ClassFlow].
const (
	flowAsk       = iota
	flowGrant     // with the size of a chunk by the receiver's limits
	flowWithdraw  // with the announcement's name: I do not want to send this any more
	flowWithdrawn // with the same: nobody here has taken it, and nobody will
	flowRevoked   // with the same: nobody will, since its communicator has been revoked
	flowInquire   // with a strand's name: I wait for you there, and know of a failure (giveup.go)
	flowGaveUp    // with the same: nothing more comes from me there
)

const (
	// perMessage is what keeping a message costs besides its bytes: the record,
	// and the smallest buffer.
	perMessage   = 256
	maxAnnounced = 4096
	// fairChunk is how much a sender may take for a chunk before it knows the
	// receiver's limits.
	fairChunk = 2 << 20
	// maxAnswers bounds the control frames that wait for credit. Of a peer that keeps to
	// the rules there are fewer: an answer to each of its announcements, and of this
	// process's an announcement and a withdrawal.
	maxAnswers = 4*maxAnnounced + 64
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
		if l.spare == 0 || cost > l.portion {
			return false
		}
		l.spare--
		l.room += l.portion
		e.control(l, fabric.ClassFlow, flowAsk, nil)
	}
	l.room -= cost
	return true
}

// mostKept is what the receiver keeps of a sender that keeps to the rules: when it answers it
// keeps a chunk of its own at most, and then two of the sender's may come, and what remained of one before.
func (l *link) mostKept() int { return l.chunk + 3*max(l.chunk, fairChunk) }

// admits reports whether one more message without a receive may be kept of those that l's peer may send. If
// not, the peer is cut off.
func (e *Engine) admits(l *link, n int) bool {
	if l.kept+n+perMessage > l.mostKept() {
		e.excess(l)
	}
	return !l.exceeded
}

// excess cuts off a peer that sends more than it has been allowed to, which no correct process does. What it
// sends until its end stands in the View is not kept. Precondition: the lock is held; it may be called
// by what Poll calls.
func (e *Engine) excess(l *link) {
	e.refused++
	if !l.exceeded {
		l.exceeded = true
		e.p.Report(l.peer, proc.Cause{Kind: proc.Corrupt})
	}
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
		e.control(l, fabric.ClassFlow, flowGrant, appendUint64(e.scratch[:0], uint64(l.chunk)))
	}
}

func (e *Engine) onFlow(from proc.ID, imm uint64, payload []byte) {
	ep := e.p.Lookup(from)
	name, named := decodeHandle(payload) // of a request; a grant has the size of a chunk there
	if ep == nil || named != (imm != flowAsk) {
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
	case imm == flowInquire:
		e.inquired(l, strandNamed(name))
	case imm == flowGaveUp:
		e.heard(l, strandNamed(name))
	case imm == flowAsk && l.asked < 2:
		l.asked++
		e.grant(l)
	case imm == flowGrant && l.spare == 0:
		l.spare++
		l.portion = min(l.chunk, max(fairChunk, int(min(name, maxMessage))))
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
