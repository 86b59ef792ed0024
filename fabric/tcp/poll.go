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
	// loyalty is how many polls without result it takes until the connection that was
	// heard last is no longer read on suspicion.
	loyalty = 1024
	// stride is how often all others are looked at meanwhile, by a process that has a core.
	stride = 32
	// favour is after how many turns in which it had something that connection is taken
	// out of epoll's hands: the sender's kernel tells epoll of each arrival.
	favour = 16
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
	p.sink = s
	n, before := 0, p.frames
	if c := p.leftover; c != nil {
		p.leftover = nil
		n = c.parse(s)
		c.settle()
	}
	if c := p.recent; c != nil && p.quiet < loyalty && c.state == up {
		if n = c.receive(s); n > 0 {
			p.quiet = 0
			p.favour(c)
		} else {
			breathe()
		}
	}
	if p.quiet++; p.quiet >= loyalty {
		p.restore()
	}
	if p.turns++; p.quiet >= loyalty || p.turns%stride == 0 || p.cfg.Shared && n == 0 {
		n += p.look(s)
	}
	if p.knocked && p.leisure(n) {
		n += p.lobbyStep()
	}
	if len(p.blocked) > 0 {
		n += p.unblock()
	}
	if len(p.suspects) > 0 {
		n += p.question(s)
	}
	if len(p.informed) > 0 {
		n += p.believe(s)
	}
	if len(p.postponed) > 0 {
		n += p.admitPostponed()
	}
	if len(p.unpaid) > 0 {
		n += p.pay()
	}
	n = max(n, p.frames-before)
	if len(p.ends) > 0 {
		n += p.report(s)
	}
	p.sink = nil
	return n
}

// breathe waits for a moment. A look takes the socket's lock, and
// the sender's kernel, which delivers, waits for it.
func breathe() {
	const pauses = 16
	for range pauses {
		release.Pause()
	}
}

// favour counts in favour of the recent connection.
func (p *Provider) favour(c *Conn) {
	if p.streak++; p.streak == favour && c.state == up {
		p.inner.pause(c.fd)
		p.favoured, c.watched = c, false
	}
}

// restore gives the favoured connection back to epoll.
func (p *Provider) restore() {
	p.streak = 0
	if c := p.favoured; c != nil && c.state == up {
		p.inner.resume(c.fd, c.key)
	}
	p.favoured = nil
}

// look asks epoll for all connections.
func (p *Provider) look(s *fabric.Sink) int {
	ready := epollNow(p.inner.fd, p.events[:])
	n := ready
	for _, ev := range p.events[:ready] {
		switch who := p.inner.who(ev).(type) {
		case *Conn:
			n += p.serve(who, ev.Events, s)
		case *interest:
			p.knocked = true
		case *alarm:
			p.ticked()
		}
	}
	return n
}

// serve heeds what epoll says of a connection.
func (p *Provider) serve(c *Conn, events uint32, s *fabric.Sink) (n int) {
	if c.state == dialling {
		c.advance(time.Now())
		return 0
	}
	if c.state == up && events&unix.EPOLLOUT != 0 && c.watched {
		c.watched = false
		_ = p.inner.change(c.fd, c.key, unix.EPOLLIN)
		c.write()
	}
	if c.state == up && events&^uint32(unix.EPOLLOUT) != 0 {
		if p.recent != c {
			p.restore()
			p.recent = c
		}
		if n = c.receive(s); n > 0 {
			p.quiet = 0
		}
	}
	return n
}

// unblock writes what sockets did not take before.
func (p *Provider) unblock() int {
	n := 0
	for _, c := range p.blocked {
		if c.state == up {
			n += c.write()
		}
	}
	p.blocked = slices.DeleteFunc(p.blocked, func(c *Conn) bool {
		c.blocked = c.state == up && c.out.unsent()
		if !c.blocked && c.watched {
			c.watched = false
			_ = p.inner.change(c.fd, c.key, unix.EPOLLIN)
		}
		return !c.blocked
	})
	return n
}

// write goes on with what waits; 1 if anything went.
func (c *Conn) write() int {
	before := c.out.progress()
	c.flush()
	c.credit()
	c.settle() // nothing could be said while the socket was full
	if c.out.progress() == before {
		return 0
	}
	return 1
}

// question reads from connections that could not be written to: what the peer sent
// before is still to be had, and then the reason.
func (p *Provider) question(s *fabric.Sink) int {
	suspects := p.suspects
	p.suspects = nil
	for _, c := range suspects {
		if c.state != up {
			continue
		}
		for c.state == up && c.receive(s) > 0 {
		}
		if c.state == up {
			c.broke(unix.EPIPE)
		}
	}
	return len(suspects)
}

// report tells of peers that have ended.
func (p *Provider) report(s *fabric.Sink) int {
	n := 0
	for ; n < len(p.ends); n++ { // telling may end others
		c := p.ends[n]
		switch {
		case c.silenced && c.end.Kind == proc.Departed:
		case c.end.Kind == proc.Departed && s.Departed != nil:
			s.Departed(c.peer)
		case s.Down != nil:
			s.Down(c.peer, c.end)
		}
	}
	p.ends = p.ends[:0]
	return n
}

// giveBack tells the sink that loans have been returned.
func (p *Provider) giveBack(c *Conn, n int) {
	step := min(n, c.forsaken)
	c.forsaken -= step
	c.returned += n - step
	switch {
	case c.returned == 0:
	case p.sink == nil: // nobody polls
		p.unpaid = append(p.unpaid, c)
	case p.sink.Returned != nil:
		n, c.returned = c.returned, 0
		p.sink.Returned(c.peer, n)
	}
}

// pay tells of the loans that came back when nobody polled.
func (p *Provider) pay() int {
	unpaid := p.unpaid
	p.unpaid = nil
	for _, c := range unpaid {
		p.giveBack(c, 0)
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
	if p.fed {
		p.fed = false
		return true
	}
	if p.leftover != nil || len(p.ends)+len(p.suspects)+len(p.postponed)+len(p.unpaid)+len(p.informed) > 0 {
		return true
	}
	p.restore()
	for _, c := range p.blocked {
		if c.state == up && !c.watched {
			c.watched = true
			_ = p.inner.change(c.fd, c.key, unix.EPOLLIN|unix.EPOLLOUT)
		}
	}
	if epollNow(p.inner.fd, p.events[:1]) > 0 {
		return true
	}
	return !p.watch.arm()
}

// mended takes a connection off the list of those that are to be made.
func (p *Provider) mended(c *Conn) {
	p.mending = slices.DeleteFunc(p.mending, func(o *Conn) bool { return o == c })
}

// discard closes a connection's descriptor.
func (p *Provider) discard(fd int, key int32) {
	p.inner.forget(fd, key)
	_ = unix.Close(fd)
}

// once makes a remark of its kind the first time.
func (p *Provider) once(kind, format string, args ...any) {
	if !p.said[kind] {
		p.said[kind] = true
		p.cfg.Logf(format, args...)
	}
}
