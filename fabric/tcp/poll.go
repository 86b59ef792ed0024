package tcp

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/release"
)

const (
	// recentPolls is the number of polls without result until the connection that delivered last is
	// no longer read speculatively.
	recentPolls = 1024
	// stride is the number of polls between two checks of all others, in a process that has a core.
	stride = 32
	// unwatchAfter is the number of turns with data after which epoll stops watching that
	// connection: the sender's kernel notifies epoll of each arrival.
	unwatchAfter = 16
)

// Poll implements fabric.Provider.
func (p *Provider) Poll(s *fabric.Sink) int {
	if p.departing {
		p.mu.Lock()
		defer p.mu.Unlock()
	}
	if p.closed {
		return 0
	}
	return p.poll(s)
}

func (p *Provider) poll(s *fabric.Sink) int {
	p.endBurst()
	p.sink = s
	n, before := 0, p.frames
	if c := p.undelivered; c != nil {
		p.undelivered = nil
		n = c.parse(s)
		c.ownBuffer()
		c.ackIfDue()
	}
	if c := p.recent; c != nil && p.idlePolls < recentPolls && c.state == up {
		if n = c.receive(s); n > 0 {
			p.idlePolls = 0
			p.countRecent(c)
		} else {
			pauseBriefly()
		}
	}
	if p.idlePolls++; p.idlePolls >= recentPolls {
		p.rewatch()
	}
	if p.polls++; p.idlePolls >= recentPolls || p.polls%stride == 0 || p.cfg.Shared && n == 0 {
		n += p.look(s)
	}
	if got := p.frames - before; got > 0 {
		n = got // the reads and the reports of epoll are not events beside these
	}
	if p.acceptReady {
		if most := p.mayAccept(n); most > 0 {
			n += p.acceptSome(most)
		}
	}
	if len(p.blocked) > 0 {
		n += p.unblock()
	}
	if len(p.suspects) > 0 {
		n += p.drainSuspects(s)
	}
	if len(p.informed) > 0 {
		n += p.endInformed(s)
	}
	if len(p.postponed) > 0 {
		n += p.admitPostponed()
	}
	if len(p.returnsDue) > 0 {
		n += p.reportReturns()
	}
	n = max(n, p.frames-before) // of connections that end or are replaced, too
	if len(p.ends) > 0 {
		n += p.report(s)
	}
	p.endBurst()
	p.sink = nil
	return n
}

// pauseBriefly waits a moment. A read takes the socket's lock, and the sender's kernel, which
// delivers, waits for it.
func pauseBriefly() {
	const pauses = 16
	for range pauses {
		release.Pause()
	}
}

// countRecent counts a turn with data of the recent connection.
func (p *Provider) countRecent(c *Conn) {
	if p.recentHits++; p.recentHits == unwatchAfter && c.state == up {
		p.connSet.pause(c.fd)
		p.unwatched, c.watched = c, false
		p.cfg.Ring() // see Await
	}
}

// rewatch makes epoll watch the unwatched connection again.
func (p *Provider) rewatch() {
	p.recentHits = 0
	if c := p.unwatched; c != nil && c.state == up {
		p.connSet.resume(c.fd, c.key)
	}
	p.unwatched = nil
}

// look asks epoll for all connections.
func (p *Provider) look(s *fabric.Sink) int {
	ready := epollNow(p.connSet.fd, p.events[:])
	n := ready
	for _, ev := range p.events[:ready] {
		switch who := p.connSet.owner(ev).(type) {
		case *Conn:
			n += p.serve(who, ev.Events, s)
		case *epollSet:
			p.acceptReady = true
		case another:
			n-- // its owner polls it
		case *alarm:
			p.timerFired()
		}
	}
	return n
}

// serve handles an event of a connection.
func (p *Provider) serve(c *Conn, events uint32, s *fabric.Sink) (n int) {
	if c.state == dialling {
		c.advance(time.Now())
		return 0
	}
	if c.state == up && events&unix.EPOLLOUT != 0 && c.watched {
		c.watched = false
		_ = p.connSet.change(c.fd, c.key, unix.EPOLLIN)
		c.write()
	}
	if c.state == up && events&^uint32(unix.EPOLLOUT) != 0 {
		if p.recent != c {
			p.rewatch()
			p.recent = c
		}
		if n = c.receive(s); n > 0 {
			p.idlePolls = 0
		}
	}
	return n
}

// unblock writes data that sockets did not take before.
func (p *Provider) unblock() int {
	n := 0
	for _, c := range p.blocked {
		if c.state == up {
			n += c.write()
		}
	}
	p.blocked = slices.DeleteFunc(p.blocked, func(c *Conn) bool {
		c.blocked = c.state == up && (c.out.unsent() || c.settling && c.settle())
		if !c.blocked && c.watched {
			c.watched = false
			_ = p.connSet.change(c.fd, c.key, unix.EPOLLIN)
		}
		return !c.blocked
	})
	return n
}

// write continues with pending data; 1 if any was written.
func (c *Conn) write() int {
	before := c.out.progress()
	c.flush()
	c.credit()
	c.ackIfDue() // no acknowledgement could be sent while the socket was full
	if c.out.progress() == before {
		return 0
	}
	return 1
}

// drainSuspects reads from connections that could not be written to: first the data that the peer
// sent before, then the error.
func (p *Provider) drainSuspects(s *fabric.Sink) int {
	suspects := p.suspects
	p.suspects = nil
	for _, c := range suspects {
		c.drain(s, unix.EPIPE)
	}
	return len(suspects)
}

// drain reads what the peer has sent, and then takes the connection as broken.
func (c *Conn) drain(s *fabric.Sink, why error) {
	for c.state == up && c.receive(s) > 0 {
	}
	if c.state == up {
		c.broke(why)
	}
}

// report reports peers that have ended.
func (p *Provider) report(s *fabric.Sink) int {
	n := 0
	for ; n < len(p.ends); n++ { // a callback may end others
		c := p.ends[n]
		switch {
		case c.invalidated && c.endCause.Kind == proc.Departed:
		case c.endCause.Kind == proc.Departed && s.Departed != nil:
			s.Departed(c.peer)
		case s.Down != nil:
			s.Down(c.peer, c.endCause)
		}
	}
	p.ends = p.ends[:0]
	return n
}

// returnLoans reports returned loans to the sink.
func (p *Provider) returnLoans(c *Conn, n int) {
	step := min(n, c.detached)
	c.detached -= step
	c.returned += n - step
	switch {
	case c.returned == 0:
	case p.sink == nil: // Poll does not run
		p.returnsDue = append(p.returnsDue, c)
		p.cfg.Ring() // see Await
	case p.sink.Returned != nil:
		n, c.returned = c.returned, 0
		p.sink.Returned(c.peer, n)
	}
}

// reportReturns reports the loans that were returned outside Poll.
func (p *Provider) reportReturns() int {
	unpaid := p.returnsDue
	p.returnsDue = nil
	for _, c := range unpaid {
		p.returnLoans(c, 0)
	}
	return len(unpaid)
}

// Ready implements fabric.Provider.
func (p *Provider) Ready() bool {
	if p.departing {
		p.mu.Lock()
		defer p.mu.Unlock()
	}
	if p.closed {
		return false
	}
	p.endBurst()
	p.polls |= stride - 1 // the next Poll finds the events that this or the bell reports
	if p.creditReturned {
		p.creditReturned = false
		return true
	}
	if p.undelivered != nil || len(p.ends)+len(p.suspects)+len(p.postponed)+len(p.returnsDue)+len(p.informed) > 0 {
		return true
	}
	p.rewatch()
	for _, c := range p.blocked {
		if c.state == up && !c.watched {
			c.watched = true
			_ = p.connSet.change(c.fd, c.key, unix.EPOLLIN|unix.EPOLLOUT)
		}
	}
	if epollNow(p.connSet.fd, p.events[:1]) > 0 {
		return true
	}
	return !p.watch.arm()
}

// reconnected removes a connection from the reconnecting list.
func (p *Provider) reconnected(c *Conn) {
	p.reconnecting = slices.DeleteFunc(p.reconnecting, func(o *Conn) bool { return o == c })
}

// discard closes a connection's descriptor.
func (p *Provider) discard(fd int, key int32) {
	p.connSet.forget(fd, key)
	_ = unix.Close(fd)
}

// logOnce logs the first event of each kind.
func (p *Provider) logOnce(kind, text string, attrs ...any) {
	if !p.logged[kind] {
		p.logged[kind] = true
		p.cfg.Log.Info(text, attrs...)
	}
}
