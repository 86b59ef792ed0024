package p2p

// The collectives of a communicator are carried by another one, which nobody sees. It is made when there is one to carry, or
// a validate: a communicator that only ever sends takes half the memory, and is made in less time, which counts when those who
// have survived are to go on.

// Coll is the communicator on which collectives send: nothing sent on one is received on
// the other. Its ranks are those of this one that are not agreed to be gone, in
// their order and without gaps. Precondition: the lock is not held, or there is one: Collective or Join
// has found no error, or a validate has begun.
func (c *Comm) Coll() *Comm {
	if w := c.coll.Load(); w != nil {
		return w
	}
	c.e.p.Lock()
	defer c.e.p.Unlock()
	return c.collLocked()
}

// setColl has collectives go over a new communicator from now on. Precondition: the lock is held.
func (c *Comm) setColl(group, peers *Group, ctx uint32) *Comm {
	w, rank := new(Comm), c.rank
	if group.size != c.group.size {
		rank = group.Rank(c.e.p.Self())
	}
	c.e.register(w, c.name, group, peers, rank, ctx)
	w.parent, w.inherited, w.cause = c, c.inherited, c.cause
	w.level.Store(uint32(w.uniform))
	if c.state.Load()&stateRevoked != 0 {
		w.state.Or(stateRevoked)
		c.e.revoked.add(ctx)
	}
	c.coll.Store(w)
	return w
}

// firstCollContext is the context of the collectives of a communicator of which no validate has ended.
func (c *Comm) firstCollContext() uint32 { return c.Context() | collContext }

// collLocked is Coll with the lock held. Of a communicator that has been freed it is one that is freed as well, for the errors of
// what is begun on it.
func (c *Comm) collLocked() *Comm {
	if w := c.coll.Load(); w != nil {
		return w
	}
	if c.state.Load()&stateFreed == 0 {
		return c.setColl(c.group, c.peers, c.firstCollContext())
	}
	w := new(Comm) // known to nobody: another one may have the context by now
	c.e.initComm(w, c.name, c.group, c.peers, c.rank, c.firstCollContext())
	w.parent, w.number = c, c.number
	w.state.Or(stateFreed)
	c.coll.Store(w)
	return w
}

// CheckMembers is the check that no member has failed that is not agreed to be gone, also when the failure has been
// acknowledged. It waits for validates that have been begun.
func (c *Comm) CheckMembers(op string) error {
	if w := c.coll.Load(); w != nil && w.state.Load() == 0 {
		return nil
	}
	c.e.p.Lock()
	defer c.e.p.Unlock()
	c.awaitValidate()
	if c.state.Load()&stateFreed != 0 {
		return c.check(op)
	}
	w := c.collLocked()
	if err := w.check(op); err != nil || w.state.Load()&stateFailed == 0 {
		return err
	}
	return w.failedMembersError(op)
}
