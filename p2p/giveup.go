package p2p

import (
	"slices"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
)

// The profile decides which messages of a collective a failure ends. Under run-through
// stabilization it ends all of them at once. Under ULFM it ends those to and from the failed rank.
// A message from a living rank may still come: if the failed rank had completed the collective it
// does, since the others need nothing more from it.
//
// A living rank may have given up instead. So a rank that waits for another one in a collective,
// and knows of a failure in the communicator, sends it an inquiry. A rank gives up a collective
// when one of its messages to or from a failed rank cannot be transferred any more, or when a rank
// that it waits for has given it up. It then ends its own messages of that collective and answers
// all inquiries about it, later ones at once. So each wait ends, with the message or with the
// answer, since living ranks do not wait for each other in a circle. Without a failure none of this
// is sent.
//
// An inquiry is not ordered with messages, but an answer arrives behind all messages that its
// sender has sent in the collective. So a rank that has completed the collective may answer too:
// its message has arrived.
//
// Blocking collectives follow each other in one stream of messages without numbers. So a rank that
// has given up one of them gives up all later ones too, until a validate. Each non-blocking
// collective has a tag of its own.

// collStream identifies a communicator's blocking collectives, or one non-blocking collective.
type collStream struct {
	ctx uint32
	tag uint32 // without root; 0: the blocking ones
}

// inquiry is the inquiry of a peer that waits for this process.
type inquiry struct {
	collStream
	from *link
}

// inquiryState is the engine's part in giving up collectives. It is empty until a process fails.
type inquiryState struct {
	pending inquirySet
	onGone  func()     // see OnGaveUp
	failed  []*Request // requests that the peer's end at hand has ended
	leaving bool       // the process is about to leave the job
}

// inquirySet holds the inquiries that wait for an answer, in the order of their arrival.
type inquirySet struct {
	order []inquiry
	known map[inquiry]struct{}
}

// maxInquiries bounds the inquiries of one peer that wait for an answer, or whose answer waits for
// credit. A communicator has no more than 1<<taskBits collectives under way, which is as many as
// there are tags.
const maxInquiries = 2 << taskBits

// add adds an inquiry that is not known.
func (s *inquirySet) add(q inquiry) {
	if s.known == nil {
		s.known = make(map[inquiry]struct{})
	}
	s.order, s.known[q] = append(s.order, q), struct{}{}
	q.from.inquiries++
}

// removeIf removes the inquiries for which done returns true.
func (s *inquirySet) removeIf(done func(inquiry) bool) {
	s.order = slices.DeleteFunc(s.order, func(q inquiry) bool {
		if !done(q) {
			return false
		}
		delete(s.known, q)
		q.from.inquiries--
		return true
	})
}

func (s collStream) name() uint64 { return uint64(s.tag)<<32 | uint64(s.ctx) }

func collStreamNamed(name uint64) collStream {
	return collStream{ctx: uint32(name), tag: uint32(name >> 32)}
}

// collStream is the stream of a collective's request.
func (r *Request) collStream() collStream {
	s := collStream{ctx: r.comm.Context()}
	if tag := uint32(r.imm); tag >= TaskTag {
		s.tag = tag &^ rootMask
	}
	return s
}

// endsWithPeerOnly reports whether a request carries a message of a collective that only the
// failure of its own peer ends.
func (r *Request) endsWithPeerOnly() bool {
	return r.comm.parent != nil && r.comm.parent.profile != RunThrough
}

// mustInquire reports whether a request of a collective may wait for a rank that has given up,
// because a member has failed.
func (r *Request) mustInquire() bool {
	return r.comm.state.Load()&stateFailed != 0 && r.endsWithPeerOnly()
}

// inquire asks a peer whether it has given up the collective of a request that waits for it.
func (e *Engine) inquire(l *link, r *Request) {
	if l != nil && l.ep.State == progress.Alive && !l.shut {
		e.control(l, fabric.ClassFlow, flowInquire, appendUint64(e.scratch[:0], r.collStream().name()))
	}
}

// inquireAll sends the inquiries that the failure of a process calls for.
func (e *Engine) inquireAll(failed proc.ID) {
	concerned := func(r *Request) bool { return r.endsWithPeerOnly() && r.comm.has(failed) }
	e.posted.all(func(r *Request) {
		if concerned(r) {
			e.inquire(e.findLink(r.src), r)
		}
	})
	if e.active == 0 {
		return
	}
	for l := range e.links.all() {
		for r := l.active; r != nil; r = r.next {
			if r.kind == reqSend && concerned(r) {
				e.inquire(l, r)
			}
		}
	}
}

// onInquiry handles a peer's inquiry.
func (e *Engine) onInquiry(l *link, s collStream) {
	q := inquiry{s, l}
	_, known := e.inquiries.pending.known[q]
	switch {
	case s.ctx&collContext == 0 || s.tag != 0 && s.tag < TaskTag || s.tag > MaxTag || s.tag&rootMask != 0:
		e.refused++
	case known:
	case l.inquiries == maxInquiries:
		e.cutOff(l)
	case e.gaveUp(s):
		e.answerInquiry(q)
	default:
		e.inquiries.pending.add(q)
	}
}

func (e *Engine) answerInquiry(q inquiry) {
	if l := q.from; l.ep.State == progress.Alive && !l.shut {
		e.control(l, fabric.ClassFlow, flowGaveUp, appendUint64(e.scratch[:0], q.name()))
	}
}

// answerInquiries answers the inquiries about collectives that this process has given up.
func (e *Engine) answerInquiries() {
	if e.inquiries.onGone != nil {
		e.inquiries.onGone()
	}
	if len(e.inquiries.pending.order) == 0 {
		return
	}
	e.inquiries.pending.removeIf(func(q inquiry) bool {
		over := e.gaveUp(q.collStream)
		if over {
			e.answerInquiry(q)
		}
		return over
	})
}

// OnGaveUp registers the function that is called, with the lock held, when this process may have given up the
// collectives of a communicator.
func (e *Engine) OnGaveUp(fn func()) { e.inquiries.onGone = fn }

// GaveUpColl reports whether this process starts no more blocking collectives in the context of a communicator of
// collectives, because it has given one up, validates or leaves. Precondition: the lock is held.
func (e *Engine) GaveUpColl(ctx uint32) bool {
	w := e.comms.find(uint64(ctx)<<32, 0)
	if w == nil {
		_, freed := e.freed.known[ctx]
		return freed || e.inquiries.leaving
	}
	return w.state.Load()&(stateBroken|stateValidating) != 0 || e.inquiries.leaving
}

// CollMembers gives the members of the communicator of collectives with a context, in the order of its ranks, or nil
// if it is not known here. Precondition: the lock is held.
func (e *Engine) CollMembers(ctx uint32) *Group {
	if w := e.comms.find(uint64(ctx)<<32, 0); w != nil {
		return w.group
	}
	c := e.comms.find(uint64(ctx&^collContext)<<32, 0)
	if ctx&collContext == 0 || c == nil || c.coll.Load() != nil {
		return nil
	}
	return c.collLocked().group
}

// gaveUp reports whether this process sends nothing more of a collective.
func (e *Engine) gaveUp(s collStream) bool {
	w := e.comms.find(uint64(s.ctx)<<32, 0)
	if w == nil {
		_, freed := e.freed.known[s.ctx]
		c := e.comms.find(uint64(s.ctx&^collContext)<<32, 0) // none has been started yet
		return freed || e.inquiries.leaving || c != nil && c.coll.Load() == nil && c.readFT().agreeing > 0
	}
	if s.tag != 0 && int32((w.joined-taskNumber(s.tag))<<(32-taskBits)) >= 0 { // started here; numbers wrap around
		return !slices.Contains(w.readFT().running, s.tag)
	}
	return w.state.Load()&(stateBroken|stateValidating) != 0 || w.parent.readFT().agreeing > 0 || e.inquiries.leaving
}

// noteFailed records a request that the peer's end at hand has ended.
func (e *Engine) noteFailed(r *Request) {
	if r.mustInquire() {
		e.inquiries.failed = append(e.inquiries.failed, r)
	}
}

// giveUpFailed gives up the collectives of the recorded requests.
func (e *Engine) giveUpFailed() {
	var room [8]collStream
	all := room[:0]
	for _, r := range e.inquiries.failed {
		if s := r.collStream(); !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	clear(e.inquiries.failed)
	e.inquiries.failed = e.inquiries.failed[:0]
	for _, s := range all {
		e.giveUp(s)
	}
}

// giveUp ends a stream's requests here and answers the inquiries about it.
func (e *Engine) giveUp(s collStream) {
	w := e.comms.find(uint64(s.ctx)<<32, 0)
	switch {
	case w == nil || s.tag == 0 && w.state.Load()&stateBroken != 0:
		return
	case s.tag == 0:
		w.state.Or(stateBroken)
	case slices.Contains(w.readFT().running, s.tag):
		w.ftState.running = slices.DeleteFunc(w.ftState.running, func(tag uint32) bool { return tag == s.tag })
	default:
		return
	}
	e.interrupt(func(r *Request) error {
		if r.comm.parent == nil || r.collStream() != s {
			return nil
		}
		return r.comm.failedMembersError()
	})
	e.answerInquiries()
}

// onGaveUp handles a peer's notice that it has given up a collective.
func (e *Engine) onGaveUp(l *link, s collStream) {
	concerned := func(r *Request) bool { return r.mustInquire() && r.collStream() == s }
	found := false
	e.posted.all(func(r *Request) {
		if r.src == l.peer && concerned(r) {
			found = true
			e.unpost(r)
			r.fail(r.comm.ReportedError(l.peer))
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
			return r.comm.ReportedError(l.peer)
		})
		e.giveUp(s)
	}
}

// ReportedError is the error of an operation that a living rank has given up. Preconditions:
// the lock is held; a member has failed.
func (c *Comm) ReportedError(by proc.ID) error {
	failed := c.failedMembersError()
	failed.By = []int{c.originalRank(by)}
	return failed
}

// mayWait reports whether a request of a collective may wait for a peer in spite of a failure, and
// sends an inquiry if so; otherwise it fails the request.
func (e *Engine) mayWait(l *link, r *Request) bool {
	over := r.comm.state.Load()&stateBroken != 0
	if tag := r.collStream().tag; tag != 0 {
		over = !slices.Contains(r.comm.readFT().running, tag)
	}
	if over {
		r.fail(r.comm.failedMembersError())
		return false
	}
	e.inquire(l, r)
	return true
}

// giveUpOwn gives up the collective of a request that could not start.
func (e *Engine) giveUpOwn(r *Request) {
	if r.mustInquire() {
		e.giveUp(r.collStream())
	}
}

// GiveUp gives up the blocking collectives after one of them returned an error. Without a failure
// it does nothing, since the other ranks would not know that they must inquire.
func (c *Comm) GiveUp() {
	c.e.p.Lock()
	defer c.e.p.Unlock()
	c.GiveUpLocked()
}

// GiveUpLocked is GiveUp with the lock held.
func (c *Comm) GiveUpLocked() {
	if c.state.Load()&stateFailed != 0 && c.parent.profile != RunThrough {
		c.e.giveUp(collStream{ctx: c.Context()})
	}
}

// Ready is the check at the start of a collective. Under run-through stabilization any failed
// member that has not been agreed to have ended is an error. Under ULFM the messages decide, unless
// this process has given up an earlier collective. It waits for validates and turns under way.
func (c *Comm) Ready() error {
	if w := c.coll.Load(); w != nil && w.state.Load() == 0 {
		return nil
	}
	return c.readySlow(false)
}

// ReadyInTurn is Ready for a collective that has a turn. Such a one starts on a communicator that has been freed
// since, as other members wait for it.
func (c *Comm) ReadyInTurn() error { return c.readySlow(true) }

func (c *Comm) readySlow(inTurn bool) error {
	c.e.p.Lock()
	defer c.e.p.Unlock()
	if !inTurn {
		c.awaitTurns()
	}
	c.awaitValidate()
	if !inTurn && c.state.Load()&stateFreed != 0 {
		return c.check()
	}
	return c.collLocked().ready()
}

// CollReady is the check at the start of a collective that failures do not end, on the communicator of collectives.
// Precondition: the lock is held.
func (c *Comm) CollReady() error { return c.ready() }

// ready is Ready of a communicator of collectives. Precondition: the lock is held.
func (c *Comm) ready() error {
	if err := c.check(); err != nil {
		return err
	}
	if c.state.Load()&stateBroken != 0 {
		return c.failedMembersError()
	}
	return nil
}

// StopCollectives declares that this process starts no more collectives.
func (e *Engine) StopCollectives() {
	e.p.Lock()
	defer e.p.Unlock()
	e.inquiries.leaving = true
	e.answerInquiries()
}
