package p2p

import (
	"slices"

	"github.com/banyan-hpc/banyan/internal/proc"
)

// Revoking a communicator ends, at every living member, whatever waits on it (ULFM
// 17.3.1, S1-28 to S1-31). Here is what one process does about it; ft/control tells the others.
//
// The state word flips first, so that what is begun afterwards fails at its top. Then receives and
// probes that wait for a match end. Announced sends are withdrawn: their buffers are given
// back when the receiver has said that it is not reading them. A message that has been matched is under way
// between two living processes, and its receive, and its send, end by themselves. What has come
// without a receive, or has been probed and not received, is dropped, and what comes later; whoever has announced it is told why.
//
// An unaware process does not look at the state word, so a short message that is begun on a revoked communicator still
// goes out, and is dropped where it arrives. Everything that waits ends as in an aware one.

// revocations are the contexts that were revoked and are in use, or will be.
type revocations struct {
	known map[uint32]struct{}
	// early are those of communicators that are not made here yet, the oldest first. Some never will be: this process could
	// not make them, or freed them so long ago that it has been forgotten.
	early []uint32
	// fresh are those whose contexts are not in known yet, but will be in the next round of the progress loop.
	fresh   []*Comm
	catchUp func() // Engine.catchUp
	// ready is what the next one's first request gets.
	ready *revokedError
	tell  func(*Comm)
	// done: called for each communicator that has been revoked here, by a member's word or by a failure.
	done func(*Comm)
}

// maxEarlyRevocations bounds the revocations that wait for their communicator; the oldest goes first.
const maxEarlyRevocations = 1024

// OnRevoke registers a function that passes on that a communicator has been revoked: it is
// called once for each, with the lock held, before anything waits.
func (e *Engine) OnRevoke(fn func(*Comm)) { e.revoked.tell = fn }

// OnRevoked registers a function that is called, with the lock held, when a communicator has been revoked
// in this process, whoever revoked it; after all that waited on it has ended.
func (e *Engine) OnRevoked(fn func(*Comm)) { e.revoked.done = fn }

// Revoke ends all communication on the communicator, here at once and soon at every
// living member. It does not wait, and may be called by any member at any time. Error:
// ft.ErrClosed.
func (c *Comm) Revoke() error {
	c.e.p.Lock()
	defer c.e.p.Unlock()
	if c.state.Load()&(stateFreed|stateFinal) != 0 {
		return c.check("revoke")
	}
	c.e.revoke(c)
	return nil
}

// Revoked makes progress and reports whether the communicator has been revoked.
func (c *Comm) Revoked() bool {
	if c.state.Load()&stateRevoked != 0 {
		return true
	}
	c.e.p.Lock()
	defer c.e.p.Unlock()
	c.e.p.Progress()
	return c.state.Load()&stateRevoked != 0
}

// RevokeContext is another member's word that the communicator with a context has been revoked. It reports whether there is, or
// was, one, so that this process passes that on, and whether that is news.
// Precondition: the lock is held.
func (e *Engine) RevokeContext(ctx uint32) (known, news bool) {
	if c := e.comms.with(uint64(ctx&^collContext)<<32, 0); c != nil {
		return true, e.revoke(c)
	}
	if c := e.freed.known[ctx&^collContext].c; c != nil {
		return true, e.revoke(c) // the others may need to hear it from here
	}
	return false, false
}

// RevokeUnmade has a communicator be revoked that RevokeContext does not know, if it is made here yet, and passes that on then.
// Precondition: the lock is held.
func (e *Engine) RevokeUnmade(ctx uint32) {
	v := &e.revoked
	if ctx &^= collContext; slices.Contains(v.early, ctx) {
		return
	}
	if len(v.early) == maxEarlyRevocations {
		v.early = slices.Delete(v.early, 0, 1)
	}
	v.early = append(v.early, ctx)
}

// revokeEarly revokes a communicator that others have revoked before it was made here.
func (e *Engine) revokeEarly(c *Comm) {
	if i := slices.Index(e.revoked.early, c.Context()); i >= 0 {
		e.revoked.early = slices.Delete(e.revoked.early, i, i+1)
		e.revoke(c)
	}
}

// revoke is Revoke with the lock held. It reports whether that was news: a second one does nothing.
func (e *Engine) revoke(c *Comm) (news bool) {
	news = e.flip(c)
	if !c.passedOn {
		c.passedOn = true
		if e.revoked.tell != nil {
			e.revoked.tell(c)
		}
	}
	if news {
		e.endRevoked(c)
	}
	return news
}

// revokeHere is revoke where the other members need not be told.
func (e *Engine) revokeHere(c *Comm) {
	if e.flip(c) {
		e.endRevoked(c)
	}
}

// flip sets the state words, and reports whether that was to be done.
func (e *Engine) flip(c *Comm) bool {
	if c.state.Load()&stateRevoked != 0 {
		return false
	}
	var room [maxContexts]*Comm
	for _, o := range c.contexts(room[:0]) {
		o.state.Or(stateRevoked)
	}
	return true
}

// endRevoked ends what waits on a communicator that has been revoked.
func (e *Engine) endRevoked(c *Comm) {
	var room [maxContexts]*Comm
	all := c.contexts(room[:0])
	e.interrupt(func(r *Request) error {
		if !slices.Contains(all, r.comm) {
			return nil
		}
		return e.endedBy(r.comm, r.kind.String())
	})
	if e.revoked.fresh = append(e.revoked.fresh, c); len(e.revoked.fresh) == 1 {
		e.p.Defer(e.revoked.catchUp)
	}
	var own [maxContexts]uint32
	for _, ctx := range c.ownContexts(own[:0]) {
		e.forgetEarly(ctx)
		e.forgetClaims(ctx)
	}
	if e.revoked.done != nil {
		e.revoked.done(c)
	}
	e.p.Kick()
}

// endedBy is the error of what a revocation ends: the one that lies ready, if it still does. Memory for another one would take as long
// as all else here.
func (e *Engine) endedBy(c *Comm, op string) error {
	ready := e.revoked.ready
	if c.cause != proc.None || ready == nil {
		return c.revokedError(op)
	}
	e.revoked.ready = nil
	ready.op, ready.comm = op, c.name
	return ready
}

// catchUp makes ready for the next revocation, and notes those that were the last: who has waited on one has returned to its caller by now, for
// which others have waited that share its core.
func (e *Engine) catchUp() {
	v := &e.revoked
	for _, c := range v.fresh {
		var room [maxContexts]*Comm
		for _, o := range c.contexts(room[:0]) {
			if o.state.Load()&stateFreed != 0 {
				continue
			}
			if v.add(o.Context()); o.of == nil && o.coll.Load() == nil {
				v.add(o.firstColl())
			}
		}
	}
	clear(v.fresh)
	v.fresh = v.fresh[:0]
	if v.ready == nil {
		v.ready = new(revokedError)
	}
}

// interrupt ends the requests for which why has an error, as far as they have not been matched.
func (e *Engine) interrupt(why func(*Request) error) {
	e.posted.all(func(r *Request) {
		if err := why(r); err != nil {
			e.unpost(r)
			r.fail(err)
		}
	})
	e.probing.all(func(r *Request) {
		if err := why(r); err != nil {
			e.probing.remove(r)
			r.fail(err)
		}
	})
	e.withdraw(proc.None, why)
}

// forgetClaims drops what matched probes have taken out and nobody has received. Their
// Messages do not look at it any more (see Message.Irecv).
func (e *Engine) forgetClaims(ctx uint32) {
	for m := e.early.claims; m != nil; {
		next := m.older
		if uint32(m.imm>>32) == ctx {
			e.early.unclaim(m)
			e.discard(m)
		}
		m = next
	}
}

// rejected ends a send whose receiver says that the communicator has been revoked, which is news here
// unless the send was withdrawn (S1-30).
func (e *Engine) rejected(l *link, r *Request) {
	c, told := r.comm, r.err != nil
	if !told {
		r.err = c.revokedError(r.kind.String())
	}
	e.answered(l, r)
	r.Finish()
	if !told {
		e.RevokeContext(c.Context())
	}
}

// maxContexts is how many communicators share one's fate at most.
const maxContexts = 4

// contexts appends the communicators that share one's fate, itself first.
func (c *Comm) contexts(all []*Comm) []*Comm {
	all = append(all, c)
	if w := c.coll.Load(); w != nil {
		all = append(all, w)
	}
	if c.local != nil {
		all = c.local.contexts(all)
	}
	return all
}

// ownContexts appends the contexts of those, and of their collectives also where none has been called yet.
func (c *Comm) ownContexts(all []uint32) []uint32 {
	coll := c.firstColl()
	if w := c.coll.Load(); w != nil {
		coll = w.Context()
	}
	all = append(all, c.Context(), coll)
	if c.local != nil {
		all = c.local.ownContexts(all)
	}
	return all
}

// add has messages for a context be dropped, until it is freed.
func (v *revocations) add(ctx uint32) {
	if v.known == nil {
		v.known = make(map[uint32]struct{})
	}
	v.known[ctx] = struct{}{}
}

// isFresh reports whether a message is for a communicator that was revoked in this round of the progress loop.
func (v *revocations) isFresh(imm uint64) bool {
	for _, c := range v.fresh {
		var room [maxContexts]uint32
		if slices.Contains(c.ownContexts(room[:0]), uint32(imm>>32)) {
			return true
		}
	}
	return false
}

// wasRevoked reports whether a message is for a communicator that has been revoked.
func (e *Engine) wasRevoked(imm uint64) bool {
	ctx := uint32(imm >> 32)
	if _, ok := e.revoked.known[ctx]; ok || e.revoked.isFresh(imm) {
		return true
	}
	c := e.freed.known[ctx&^collContext].c
	return c != nil && c.state.Load()&stateRevoked != 0 && !e.uses(ctx) && !e.uses(ctx&^collContext)
}
