package sim

// core gives the activities of one process turns on its only core: first come, first served. An
// activity that has yielded goes to the end, so none starves. As an event it is the next turn.
type core struct {
	p      *Proc
	ready  []*task
	queued bool // its event is queued, for when the core was free at the latest
}

// queue queues an activity that can run from the present on.
func (c *core) queue(t *task) {
	c.ready = append(c.ready, t)
	c.schedule()
}

// schedule queues the next turn for when the core is free.
func (c *core) schedule() {
	if s := c.p.sim; !c.queued {
		c.queued = true
		s.push(max(s.present(), c.p.clock), c)
	}
}

func (c *core) happen(s *Sim) *task {
	p := c.p
	c.queued = false
	if p.over {
		return nil
	}
	if p.clock > s.now { // an activity has kept it busy since
		c.schedule()
		return nil
	}
	p.clock = s.now
	t := c.ready[0]
	c.ready = c.ready[:copy(c.ready, c.ready[1:])]
	if len(c.ready) > 0 {
		c.schedule()
	}
	return t
}
