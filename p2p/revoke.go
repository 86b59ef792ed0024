package p2p

import (
	"fmt"
	"slices"

	"github.com/banyan-hpc/banyan/ft"
)

// Revoking a communicator ends, at every living member, whatever waits on it (ULFM
// 17.3.1, S1-28 to S1-31). Here is what one process does about it; ft/control tells the others.
//
// The state word flips first, so that what is begun afterwards fails at its top. Then receives and
// probes that wait for a match end. Announced sends are withdrawn: their buffers are given
// back when the receiver has said that it is not reading them. A message that has been matched is under way
// between two living processes, and its receive, and its send, end by themselves. What has come
// without a receive is dropped, and what comes later.

// revocations are the contexts that were revoked and are in use, or will be.
type revocations struct {
	known map[uint32]struct{}
	// early are those of communicators that are not made here yet.
	early map[uint32]struct{}
	tell  func(*Comm)
}

// maxEarlyRevocations bounds the revocations that wait for their communicator. Whoever sends as many
// for communicators that never come is wrong, and loses its own.
const maxEarlyRevocations = 4096

// OnRevoke registers a function that passes on that a communicator has been revoked: it is
// called once for each, with the lock held, before anything waits.
func (e *Engine) OnRevoke(fn func(*Comm)) { e.revoked.tell = fn }

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

// RevokeContext is another member's word that the communicator with a context has been revoked.
// Precondition: the lock is held.
func (e *Engine) RevokeContext(ctx uint32) {
	want := uint64(ctx&^collContext) << 32
	for _, c := range e.comms {
		if c.ctx == want {
			e.revoke(c)
			return
		}
	}
	if c := e.freed.known[ctx&^collContext]; c != nil {
		e.revoke(c) // the others may need to hear it from here
		return
	}
	if e.revoked.early == nil {
		e.revoked.early = make(map[uint32]struct{})
	}
	if len(e.revoked.early) < maxEarlyRevocations {
		e.revoked.early[ctx&^collContext] = struct{}{}
	}
}

// revokeEarly revokes a communicator that others have revoked before it was made here.
func (e *Engine) revokeEarly(c *Comm) {
	ctx := uint32(c.ctx >> 32)
	if _, early := e.revoked.early[ctx]; early {
		delete(e.revoked.early, ctx)
		e.revoke(c)
	}
}

// revoke is Revoke with the lock held. A second one does nothing.
func (e *Engine) revoke(c *Comm) {
	if c.state.Load()&stateRevoked != 0 {
		return
	}
	all := c.contexts()
	for _, o := range all {
		if o.state.Or(stateRevoked)&stateFreed == 0 {
			e.revoked.add(uint32(o.ctx >> 32))
		}
	}
	if e.revoked.tell != nil {
		e.revoked.tell(c)
	}
	e.interrupt(func(r *Request) error {
		if !slices.Contains(all, r.comm) {
			return nil
		}
		return fmt.Errorf("%v on %s: %w", r.kind, c.name, ft.ErrRevoked)
	})
	for _, o := range all {
		e.forgetEarly(o)
	}
	e.p.Kick()
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
	e.withdraw(e.p.Self(), why)
}

// contexts lists the communicators that share one's fate, itself first.
func (c *Comm) contexts() []*Comm {
	all := []*Comm{c}
	if w := c.Coll(); w != nil {
		all = append(all, w)
	}
	if c.local != nil {
		all = append(all, c.local, c.local.Coll())
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

// wasRevoked reports whether a message is for a communicator that has been revoked.
func (e *Engine) wasRevoked(imm uint64) bool {
	if len(e.revoked.known) == 0 {
		return false
	}
	_, ok := e.revoked.known[uint32(imm>>32)]
	return ok
}
