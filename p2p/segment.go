package p2p

// Segment is memory that the members of a communicator of collectives share; see package coll/sm.
type Segment interface {
	// Leave ends its use, when the communicator is freed or, departs, the process leaves the job. The
	// lock is held.
	Leave(departs bool)
}

// Attach has a segment left when the communicator is freed: at once, if it has been. Precondition: the
// lock is held.
func (c *Comm) Attach(s Segment) {
	c.segment = s
	if state := c.state.Load(); state&(stateFreed|stateFinal) != 0 {
		s.Leave(state&stateFinal != 0)
	}
}

// leaveSegment makes a communicator leave its segment when it is freed, or its process leaves the
// job.
func (c *Comm) leaveSegment(departs bool) {
	if c.segment != nil {
		c.segment.Leave(departs)
	}
}

// Disturbed reports whether a blocking collective that waits has to look at Interrupted.
func (c *Comm) Disturbed() bool { return c.state.Load()&^(stateValidating|stateTurn) != 0 }

// Interrupted is the error of a blocking collective that waits for shared memory and has no end, or nil.
// Waits: it was called before the communicator was freed, and continues. Precondition: the lock is held,
// and c is a communicator of collectives.
func (c *Comm) Interrupted(waits bool) error {
	s, of := c.state.Load(), c.parent.state.Load()
	if waits && s&of&stateFreed != 0 && s&(stateRevoked|stateFailed|stateFinal) == 0 {
		return nil
	}
	if err := c.check(); err != nil || s&stateFailed == 0 {
		return err
	}
	return c.failedMembersError()
}

// InDoubt is Interrupted of a wait that only the end of the rank that it waits for ends under ULFM: true if
// that has to be asked for, by Ask.
func (c *Comm) InDoubt(waits bool) (doubt bool, err error) {
	if c.parent.profile != RunThrough && c.state.Load()&(stateFailed|stateRevoked|stateFinal|stateFreed) == stateFailed {
		return true, nil
	}
	return false, c.Interrupted(waits)
}

// Ask posts a receive from a rank, to which no message comes, as it has the tag of no collective: it ends with an error if
// the rank has failed, or has given up the blocking collectives; see giveup.go. Not connected: Connect comes first.
// Precondition: the lock is held.
func (c *Comm) Ask(rank int) (h Handle, connected bool) {
	p := c.peers.proc(rank)
	ep := c.e.p.Lookup(p)
	if ep == nil {
		return Handle{}, false
	}
	c.e.linkFor(ep)
	r := c.e.newRequest(c, reqRecv, nil)
	h = Handle{r, r.gen}
	c.e.post(r, p, c.ctx)
	return h, true
}

// Answer gives the error of a receive of Ask, or nil while there is none. Precondition: the lock is held.
func (e *Engine) Answer(h Handle) error {
	if e.State(h) != Complete {
		return nil
	}
	_, err := e.Take(h)
	return err
}
