package p2p

import (
	"cmp"
	"slices"

	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// Revoking a communicator ends all waiting operations on it at every living member (ULFM 17.3.1).
// This file does so in one process; package ft/control notifies the others.
//
// The state word is set first, so that later operations fail at their start. Then unmatched
// receives and probes end. Announced sends are withdrawn: their buffers are released when the
// receiver confirms that it is not reading them. A matched message is in flight between two living
// processes, so its receive and its send end by themselves. Unexpected messages, and probed ones
// that have not been received, are dropped, and so are later ones; the sender of an announcement
// gets a notice.
//
// An unaware process does not check the state word, so a short message on a revoked communicator is
// still sent, and dropped at the receiver. All waiting operations end as in an aware one.

// revocations are the revoked contexts that are in use or will be.
type revocations struct {
	known map[uint32]struct{}
	// unmade are contexts of communicators that have not been made here yet, the oldest first. Some
	// will never be: this process failed to make them, or freed them so long ago that it has
	// forgotten them.
	unmade []uint32
	// recent are communicators whose contexts enter known in the next round of the progress loop.
	recent  []*Comm
	catchUp func() // Engine.catchUp, bound once
	// spare is the error of the next revocation's first request: an allocation would take as long as
	// everything else there.
	spare  *ft.OpError
	notify func(*Comm)
	// onDone are called for each communicator that has been revoked here, by a notice or by a
	// failure.
	onDone []func(*Comm)
}

// maxUnmade bounds unmade; the oldest context is dropped first.
const maxUnmade = 1024

// OnRevoke registers a function that notifies the other members of a revocation: it is called once
// for each communicator, with the lock held.
func (e *Engine) OnRevoke(fn func(*Comm)) { e.revoked.notify = fn }

// OnRevoked registers a function, one of several, that is called, with the lock held, when a communicator has been
// revoked in this process by any member, after its waiting operations have ended.
func (e *Engine) OnRevoked(fn func(*Comm)) { e.revoked.onDone = append(e.revoked.onDone, fn) }

// Revoke ends all communication on the communicator, here at once and soon at every living member.
// It does not block, and any member may call it at any time. Error: ft.ErrClosed.
func (c *Comm) Revoke() error {
	c.e.p.Lock()
	defer c.e.p.Unlock()
	if c.state.Load()&(stateFreed|stateFinal) != 0 {
		return c.check()
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

// RevokeContext handles another member's notice that a communicator has been revoked. known reports
// whether this process has or had that communicator, and so forwards the notice; news, whether it
// was not revoked before.
//
// Precondition: the lock is held.
func (e *Engine) RevokeContext(ctx uint32) (known, news bool) {
	if c := e.comms.find(uint64(ctx&^collContext)<<32, 0); c != nil {
		return true, e.revoke(c)
	}
	if c := e.freed.known[ctx&^collContext].c; c != nil {
		return true, e.revoke(c) // the others may depend on this process's notice
	}
	return false, false
}

// RevokeUnmade records the revocation of a communicator that RevokeContext does not know. If it is
// made here later it is revoked then.
//
// Precondition: the lock is held.
func (e *Engine) RevokeUnmade(ctx uint32) {
	v := &e.revoked
	if ctx &^= collContext; slices.Contains(v.unmade, ctx) {
		return
	}
	if len(v.unmade) == maxUnmade {
		v.unmade = slices.Delete(v.unmade, 0, 1)
	}
	v.unmade = append(v.unmade, ctx)
}

// revokeUnmade revokes a new communicator that others revoked before it was made here.
func (e *Engine) revokeUnmade(c *Comm) {
	if i := slices.Index(e.revoked.unmade, c.Context()); i >= 0 {
		e.revoked.unmade = slices.Delete(e.revoked.unmade, i, i+1)
		e.revoke(c)
	}
}

// revoke is Revoke with the lock held. It reports whether the communicator was not revoked before.
func (e *Engine) revoke(c *Comm) (news bool) {
	news = e.setRevoked(c)
	if !c.notified {
		c.notified = true
		if e.revoked.notify != nil {
			e.revoked.notify(c)
		}
	}
	if news {
		e.endRevoked(c)
	}
	return news
}

// revokeLocal is revoke without notices to the other members.
func (e *Engine) revokeLocal(c *Comm) {
	if e.setRevoked(c) {
		e.endRevoked(c)
	}
}

// setRevoked sets the state words, and reports whether they were not set before.
func (e *Engine) setRevoked(c *Comm) bool {
	if c.state.Load()&stateRevoked != 0 {
		return false
	}
	var room [maxContexts]*Comm
	for _, o := range c.linkedComms(room[:0]) {
		o.state.Or(stateRevoked)
	}
	return true
}

// endRevoked ends the waiting operations of a revoked communicator.
func (e *Engine) endRevoked(c *Comm) {
	var room [maxContexts]*Comm
	all := c.linkedComms(room[:0])
	e.interrupt(func(r *Request) error {
		if !slices.Contains(all, r.comm) {
			return nil
		}
		return r.comm.revokedError()
	})
	if e.revoked.recent = append(e.revoked.recent, c); len(e.revoked.recent) == 1 {
		e.p.Defer(e.revoked.catchUp)
	}
	var own [maxContexts]uint32
	for _, ctx := range c.linkedContexts(own[:0]) {
		e.dropUnexpected(ctx)
		e.dropClaims(ctx)
	}
	for _, done := range e.revoked.onDone {
		done(c)
	}
	e.p.Kick()
}

// catchUp prepares the next revocation and records the last ones. By now the waiting goroutine has
// returned to its caller, and the other processes on its core have run.
func (e *Engine) catchUp() {
	v := &e.revoked
	for _, c := range v.recent {
		var room [maxContexts]*Comm
		for _, o := range c.linkedComms(room[:0]) {
			if o.state.Load()&stateFreed != 0 {
				continue
			}
			if v.add(o.Context()); o.parent == nil && o.coll.Load() == nil {
				v.add(o.firstCollContext())
			}
		}
	}
	clear(v.recent)
	v.recent = v.recent[:0]
	if v.spare == nil {
		v.spare = new(ft.OpError)
	}
}

// interrupt ends the unmatched requests for which why returns an error.
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

// dropClaims drops the probed messages of a context that have not been received. Their Message
// values do not use them any more (see Message.Irecv).
func (e *Engine) dropClaims(ctx uint32) {
	for m := e.unexpected.claims; m != nil; {
		next := m.older
		if uint32(m.imm>>32) == ctx {
			e.unexpected.unclaim(m)
			e.discard(m)
		}
		m = next
	}
}

// onRejected ends a send whose receiver reports that the communicator has been revoked, and revokes
// it here unless the send was withdrawn.
func (e *Engine) onRejected(l *link, r *Request) {
	c, withdrawn := r.comm, r.err != nil
	if !withdrawn {
		r.err = r.opError(c.revokedError())
	}
	e.endAnnouncement(l, r)
	r.Finish()
	if !withdrawn {
		e.RevokeContext(cmp.Or(c.parent, c).Context())
	}
}

// maxContexts bounds the communicators that are revoked together.
const maxContexts = 4

// linkedComms appends the communicators that are revoked together with this one, itself first.
func (c *Comm) linkedComms(all []*Comm) []*Comm {
	all = append(all, c)
	if w := c.coll.Load(); w != nil {
		all = append(all, w)
	}
	if c.local != nil {
		all = c.local.linkedComms(all)
	}
	return all
}

// linkedContexts appends their contexts, also those of collectives communicators that have not been
// made yet.
func (c *Comm) linkedContexts(all []uint32) []uint32 {
	coll := c.firstCollContext()
	if w := c.coll.Load(); w != nil {
		coll = w.Context()
	}
	all = append(all, c.Context(), coll)
	if c.local != nil {
		all = c.local.linkedContexts(all)
	}
	return all
}

// add lets messages for a context be dropped until it is freed.
func (v *revocations) add(ctx uint32) {
	if v.known == nil {
		v.known = make(map[uint32]struct{})
	}
	v.known[ctx] = struct{}{}
}

// isRecent reports whether a message is for a communicator that was revoked in this round of the
// progress loop.
func (v *revocations) isRecent(imm uint64) bool {
	for _, c := range v.recent {
		var room [maxContexts]uint32
		if slices.Contains(c.linkedContexts(room[:0]), uint32(imm>>32)) {
			return true
		}
	}
	return false
}

// wasRevoked reports whether a message is for a revoked communicator.
func (e *Engine) wasRevoked(imm uint64) bool {
	ctx := uint32(imm >> 32)
	if _, ok := e.revoked.known[ctx]; ok || e.revoked.isRecent(imm) {
		return true
	}
	c := e.freed.known[ctx].c
	return c != nil && c.state.Load()&stateRevoked != 0 && !e.contextInUse(ctx)
}
