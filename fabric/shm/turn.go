package shm

// SetRuns reports to the peers whether this process has a core or yields it to others. Only
// processes that share cores call it, before and after each yield and sleep. Preconditions: as Poll.
func (p *Provider) SetRuns(runs bool) {
	if p.closed {
		return
	}
	turn := &p.own.head().turn
	if now := turn.Load(); (now%2 == 1) != runs {
		turn.Store(now + 1)
	}
}

// Turn is odd while the peer reports that it has a core, and another number in each of its turns.
func (c *Conn) Turn() uint32 {
	if !c.live {
		return 0
	}
	return c.segment.head().turn.Load()
}
