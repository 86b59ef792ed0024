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

// leaveSegment has a communicator that is freed, or whose process leaves the job, leave its segment.
func (c *Comm) leaveSegment(departs bool) {
	if c.segment != nil {
		c.segment.Leave(departs)
	}
}

// Disturbed reports whether a blocking collective that waits has to look at Interrupted.
func (c *Comm) Disturbed() bool { return c.state.Load()&^(stateValidating|stateTurn) != 0 }

// Interrupted is the error of a blocking collective that waits for shared memory and has no end, or nil.
// Waits: it was called before the communicator was freed, and goes on. Precondition: the lock is held,
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
