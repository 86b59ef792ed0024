package p2p

import "slices"

// The collectives of a communicator run on a hidden one. It is made at the first collective or
// validate. A communicator without collectives takes half the memory and is made faster, which
// matters for recovery.

// Coll is the communicator on which collectives send; a message sent on one is never received on
// the other. Its ranks are the members that have not been agreed to have ended, in their order and
// without gaps; of an intercommunicator those of both sides, one side after the other (see Side).
//
// Precondition: the lock is not held, or the communicator exists: CheckMembers or Join found no
// error, or a validate is under way.
func (c *Comm) Coll() *Comm {
	if w := c.coll.Load(); w != nil {
		return w
	}
	c.e.p.Lock()
	defer c.e.p.Unlock()
	return c.collLocked()
}

// CollMade is Coll if it has been made, else nil.
func (c *Comm) CollMade() *Comm { return c.coll.Load() }

// setColl makes a new communicator for the collectives that follow. Precondition: the lock is held.
func (c *Comm) setColl(group *Group, ctx uint32) *Comm {
	w, rank := new(Comm), int(c.rank)
	if group != c.group {
		rank = group.Rank(c.e.p.Self())
	}
	c.e.register(w, c.name, group, group, rank, ctx)
	w.parent, w.inherited, w.cause = c, c.inherited, c.cause
	w.level.Store(uint32(w.uniform))
	if c.InTurn() {
		w.state.Or(stateTurn)
	}
	if c.state.Load()&stateRevoked != 0 {
		w.state.Or(stateRevoked)
		c.e.revoked.add(ctx)
	}
	c.coll.Store(w)
	return w
}

// bothSides is the group; of an intercommunicator that of both sides, in an order that is the same on both:
// first the side with the lowest process.
func (c *Comm) bothSides() *Group {
	if c.local == nil {
		return c.group
	}
	a, b := c.group.Procs(), c.peers.Procs()
	if slices.Min(b) < slices.Min(a) {
		a, b = b, a
	}
	return new(NewGroup(append(a, b...)))
}

// Side gives the ranks of Coll that are members of this side of an intercommunicator: from … to-1. All others
// are members of the other side. Precondition: that of Coll.
func (c *Comm) Side() (from, to int) {
	w, n := c.Coll(), 0
	for rank := range c.group.size {
		if w.group.Rank(c.group.proc(rank)) >= 0 {
			n++
		}
	}
	if c.group.Rank(w.group.proc(0)) >= 0 {
		return 0, n
	}
	return w.group.size - n, w.group.size
}

// firstCollContext is the context of the collectives before the first validate.
func (c *Comm) firstCollContext() uint32 { return c.Context() | collContext }

// collLocked is Coll with the lock held. For a freed communicator the result is freed as well, so
// that operations on it return the right error.
func (c *Comm) collLocked() *Comm {
	if w := c.coll.Load(); w != nil {
		return w
	}
	if c.state.Load()&stateFreed == 0 {
		return c.setColl(c.bothSides(), c.firstCollContext())
	}
	w := new(Comm) // unregistered: another communicator may have the context by now
	c.e.initComm(w, c.name, c.group, c.group, int(c.rank), c.firstCollContext())
	w.parent = c
	w.state.Or(stateFreed)
	c.coll.Store(w)
	return w
}

// CheckMembers returns an error if a member has failed that has not been agreed to have ended, even
// if its failure has been acknowledged. It waits for validates under way.
func (c *Comm) CheckMembers() error {
	if w := c.coll.Load(); w != nil && w.state.Load() == 0 {
		return nil
	}
	c.e.p.Lock()
	defer c.e.p.Unlock()
	c.awaitValidate()
	if c.state.Load()&stateFreed != 0 {
		return c.check()
	}
	w := c.collLocked()
	if err := w.check(); err != nil || w.state.Load()&stateFailed == 0 {
		return err
	}
	return w.failedMembersError()
}
