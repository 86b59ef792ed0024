package p2p

import (
	"slices"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
)

// What a failure ends of a communicator's collectives depends on its profile. In run-through stabilization it
// ends all of their messages at once. In ULFM it ends those to and from the failed rank: a message from a
// living rank may still come, and if the failed rank had completed the collective it does, since that rank owes
// nothing to anybody.
//
// A living rank may have given up instead. So a rank that waits for another one in a collective, and knows of a
// failure in the communicator, inquires of that one. A rank gives a collective up when a message of it to or
// from a failed rank cannot be transferred any more, or when a rank that it waits for has given it up. Then it
// ends its own messages of that collective, and answers all inquiries about it; those that come later it
// answers at once. So each wait ends, with the message or the answer, as there is no circle of living ranks
// that wait for each other. Without a failure nothing of this is sent.
//
// An inquiry arrives behind nothing in particular, but an answer arrives behind all messages that its sender
// has sent in the collective. So a rank that has completed it may answer as well: the message is there.
//
// Collectives that block follow each other in one stream of messages without numbers. So a rank that has given
// one of them up gives up all later ones too, until a validate. Each of those that go on by themselves has a
// tag of its own.

// strand is a communicator's collectives that block, or one that goes on by itself.
type strand struct {
	ctx uint32
	tag uint32 // without root; 0: those that block
}

// inquiry is a peer that waits for this process.
type inquiry struct {
	strand
	from proc.ID
}

// giveUps is what the engine keeps of inquiries. It is empty as long as nobody has failed.
type giveUps struct {
	asked   []inquiry
	ended   []*Request // of collectives, by the death that is being looked at
	leaving bool       // the process is about to leave the job
}

// maxInquiries bounds those that wait for an answer.
const maxInquiries = 1 << 16

func (s strand) name() uint64 { return uint64(s.tag)<<32 | uint64(s.ctx) }

func strandNamed(name uint64) strand { return strand{ctx: uint32(name), tag: uint32(name >> 32)} }

// strand is where a collective's request belongs.
func (r *Request) strand() strand {
	s := strand{ctx: r.comm.Context()}
	if tag := uint32(r.imm); tag >= TaskTag {
		s.tag = tag &^ rootMask
	}
	return s
}

// insulated reports whether a request carries a collective's message that the failure of another rank than its
// peer does not end.
func (r *Request) insulated() bool { return r.comm.of != nil && r.comm.of.profile != RTS }

// unsure reports whether a request of a collective may wait for a rank that has given up: a member has failed.
func (r *Request) unsure() bool {
	return r.comm.of != nil && r.comm.state.Load()&stateFailed != 0 && r.insulated()
}

// inquire asks a peer whether it has given up the collective of a request that waits for it.
func (e *Engine) inquire(l *link, r *Request) {
	if l != nil && l.ep.State == progress.Alive && !l.closed {
		e.control(l, fabric.ClassFlow, flowInquire, appendUint64(e.scratch[:0], r.strand().name()))
	}
}

// inquireAll does so for all requests of communicators with that failed member.
func (e *Engine) inquireAll(dead proc.ID) {
	concerned := func(r *Request) bool { return r.comm.of != nil && r.insulated() && r.comm.has(dead) }
	e.posted.all(func(r *Request) {
		if concerned(r) {
			e.inquire(e.known(r.src), r)
		}
	})
	if e.active == 0 {
		return
	}
	for _, page := range e.links {
		for i := 0; page != nil && i < linkPage; i++ {
			if page[i] == nil {
				continue
			}
			for r := page[i].active; r != nil; r = r.next {
				if r.kind == reqSend && concerned(r) {
					e.inquire(page[i], r)
				}
			}
		}
	}
}

// inquired takes a peer's inquiry.
func (e *Engine) inquired(l *link, s strand) {
	q := inquiry{s, l.peer}
	switch {
	case s.ctx&collContext == 0 || s.tag != 0 && s.tag < TaskTag || s.tag > MaxTag || s.tag&rootMask != 0:
		e.refused++
	case e.gaveUp(s):
		e.answer(q)
	case slices.Contains(e.gives.asked, q):
	case len(e.gives.asked) == maxInquiries:
		e.refused++
	default:
		e.gives.asked = append(e.gives.asked, q)
	}
}

func (e *Engine) answer(q inquiry) {
	if l := e.known(q.from); l != nil && l.ep.State == progress.Alive && !l.closed {
		e.control(l, fabric.ClassFlow, flowGaveUp, appendUint64(e.scratch[:0], q.name()))
	}
}

// answerAll answers the inquiries that can be answered now.
func (e *Engine) answerAll() {
	if len(e.gives.asked) == 0 {
		return
	}
	still := e.gives.asked[:0]
	for _, q := range e.gives.asked {
		if e.gaveUp(q.strand) {
			e.answer(q)
		} else {
			still = append(still, q)
		}
	}
	e.gives.asked = still
}

// gaveUp reports whether this process sends nothing more of a collective.
func (e *Engine) gaveUp(s strand) bool {
	w := e.comms.with(uint64(s.ctx)<<32, 0)
	if w == nil {
		_, freed := e.freed.known[s.ctx]
		c := e.comms.with(uint64(s.ctx&^collContext)<<32, 0) // it may have begun none yet
		return freed || e.gives.leaving || c != nil && c.coll.Load() == nil && c.kept().away > 0
	}
	if s.tag != 0 && int32((w.joined-numberOf(s.tag))<<(32-taskBits)) >= 0 { // it has begun here; numbers wrap around
		return !slices.Contains(w.kept().running, s.tag)
	}
	return w.state.Load()&(stateBroken|stateValidating) != 0 || w.of.kept().away > 0 || e.gives.leaving
}

// unable notes that the death that is being looked at has ended a request. Precondition: it has.
func (e *Engine) unable(r *Request) {
	if r.unsure() {
		e.gives.ended = append(e.gives.ended, r)
	}
}

// giveUpEnded gives up what the requests belonged to that a death has ended.
func (e *Engine) giveUpEnded() {
	var room [8]strand
	all := room[:0]
	for _, r := range e.gives.ended {
		if s := r.strand(); !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	clear(e.gives.ended)
	e.gives.ended = e.gives.ended[:0]
	for _, s := range all {
		e.giveUp(s)
	}
}

// giveUp ends all of a collective here, or of all that block and those that follow, and tells whoever has
// inquired.
func (e *Engine) giveUp(s strand) {
	w := e.comms.with(uint64(s.ctx)<<32, 0)
	switch {
	case w == nil || s.tag == 0 && w.state.Load()&stateBroken != 0:
		return
	case s.tag == 0:
		w.state.Or(stateBroken)
	case slices.Contains(w.kept().running, s.tag):
		w.seldom.running = slices.DeleteFunc(w.seldom.running, func(tag uint32) bool { return tag == s.tag })
	default:
		return
	}
	e.interrupt(func(r *Request) error {
		if r.comm.of == nil || r.strand() != s {
			return nil
		}
		return r.comm.bereaved(r.kind.String())
	})
	e.answerAll()
}

// heard takes a peer's word that it has given up.
func (e *Engine) heard(l *link, s strand) {
	concerned := func(r *Request) bool { return r.unsure() && r.strand() == s }
	found := false
	e.posted.all(func(r *Request) {
		if r.src == l.peer && concerned(r) {
			found = true
			e.unpost(r)
			r.fail(r.comm.reported(r.kind.String(), l.peer))
		}
	})
	for r := l.active; r != nil && !found; r = r.next {
		found = r.announced && r.err == nil && concerned(r)
	}
	for o := l.held; o != nil && !found; o = o.next {
		found = concerned(o.req)
	}
	if found {
		e.withdrawFrom(l, func(r *Request) error {
			if !concerned(r) {
				return nil
			}
			return r.comm.reported(r.kind.String(), l.peer)
		})
		e.giveUp(s)
	}
}

// reported is the error of an operation that a living rank has given up. Precondition: a member has failed.
func (c *Comm) reported(op string, by proc.ID) error {
	failed := c.bereaved(op).(*ft.ProcFailedError)
	failed.By = []int{c.said(by)}
	return failed
}

// waits reports whether a request of a collective may wait for a peer though a member has failed; if not, it
// has ended. It inquires of the peer.
func (e *Engine) waits(l *link, r *Request) bool {
	over := r.comm.state.Load()&stateBroken != 0
	if tag := r.strand().tag; tag != 0 {
		over = !slices.Contains(r.comm.kept().running, tag)
	}
	if over {
		r.fail(r.comm.bereaved(r.kind.String()))
		return false
	}
	e.inquire(l, r)
	return true
}

// stuck gives up what a request belonged to that could not begin.
func (e *Engine) stuck(r *Request) {
	if r.unsure() {
		e.giveUp(r.strand())
	}
}

// GiveUp ends the collectives that block, after an error of one of them, unless nobody has failed: then the
// others do not know that they may wait in vain.
func (c *Comm) GiveUp() {
	c.e.p.Lock()
	defer c.e.p.Unlock()
	c.GiveUpLocked()
}

// GiveUpLocked is GiveUp with the lock held.
func (c *Comm) GiveUpLocked() {
	if c.state.Load()&stateFailed != 0 && c.of.profile != RTS {
		c.e.giveUp(strand{ctx: c.Context()})
	}
}

// Ready is the early exit of a collective. In run-through stabilization any member that has failed and is not
// agreed to be gone is an error. In ULFM the messages decide, unless an earlier collective has been given up
// here. It waits for validates that have been begun.
func (c *Comm) Ready(op string) error {
	if w := c.coll.Load(); w != nil && w.state.Load() == 0 {
		return nil
	}
	c.e.p.Lock()
	defer c.e.p.Unlock()
	c.settle()
	if c.state.Load()&stateFreed != 0 {
		return c.check(op)
	}
	return c.collected().ready(op)
}

// ready is Ready of a communicator of collectives. Precondition: the lock is held.
func (c *Comm) ready(op string) error {
	if err := c.check(op); err != nil {
		return err
	}
	if c.state.Load()&stateBroken != 0 {
		return c.bereaved(op)
	}
	return nil
}

// Leaving has this process begin no collectives any more.
func (e *Engine) Leaving() {
	e.p.Lock()
	defer e.p.Unlock()
	e.gives.leaving = true
	e.answerAll()
}

// absent waits for an agreement that the application has called, in which this process is not to begin a
// collective of its communicator.
func (e *Engine) absent(r *Request) {
	s := r.comm.rare()
	s.away++
	e.answerAll()
	e.p.Wait(&r.Completion)
	s.away--
}
