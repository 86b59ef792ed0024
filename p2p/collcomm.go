package p2p

// The collectives of a communicator run on a hidden one. It is made at the first collective or
// validate. A communicator without collectives takes half the memory and is made faster, which
// matters for recovery.

// Coll is the communicator on which collectives send; a message sent on one is never received on
// the other. Its ranks are the members that have not been agreed to have ended, in their order and
// without gaps.
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

// setColl makes a new communicator for the collectives that follow. Precondition: the lock is held.
func (c *Comm) setColl(group, peers *Group, ctx uint32) *Comm {
	w, rank := new(Comm), int(c.rank)
	if group.size != c.group.size {
		rank = group.Rank(c.e.p.Self())
	}
	c.e.register(w, c.name, group, peers, rank, ctx)
	w.parent, w.inherited, w.cause = c, c.inherited, c.cause
	w.level.Store(uint32(w.uniform))
	if c.inTurn() {
		w.state.Or(stateTurn)
	}
	if c.state.Load()&stateRevoked != 0 {
		w.state.Or(stateRevoked)
		c.e.revoked.add(ctx)
	}
	c.coll.Store(w)
	return w
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
		return c.setColl(c.group, c.peers, c.firstCollContext())
	}
	w := new(Comm) // unregistered: another communicator may have the context by now
	c.e.initComm(w, c.name, c.group, c.peers, int(c.rank), c.firstCollContext())
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
