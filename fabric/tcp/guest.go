package tcp

import (
	"bytes"
	"crypto/rand"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxGuests wait for the end of their handshake at most; when one more comes the
	// oldest has to go. A peer that has to is back at once.
	maxGuests = 128
	// guestTime is how long a handshake may take.
	guestTime = 5 * time.Second
	// acceptBatch bounds how many are let in before other things are looked at.
	acceptBatch = 16
)

// guest is who has connected and not proved yet that it is a peer.
type guest struct {
	talk
	way   way
	due   time.Time
	hello *hello     // nil until heard
	proof *statement // of one that is postponed
}

// lobby looks at the listeners and the guests. Between Depart and Close a goroutine
// calls it too, so it touches nothing else then.
func (p *Provider) lobbyRound() {
	var events [32]unix.EpollEvent
	n := epollNow(p.lobby.fd, events[:])
	for _, ev := range events[:n] {
		switch who := p.lobby.who(ev).(type) {
		case *listener:
			p.accept(who)
		case *guest:
			p.attend(who)
		}
	}
}

// accept lets newcomers in.
func (p *Provider) accept(l *listener) {
	for range acceptBatch {
		fd, sa, err := unix.Accept4(l.fd, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		switch err {
		case nil:
		case unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM:
			p.once("accept", "tcp: cannot take a connection: %v: raise the limit of open files (ulimit -n)", err)
			p.deafen(l)
			return
		case unix.ECONNABORTED, unix.EINTR:
			continue
		default:
			return
		}
		tune(fd, l.domain)
		g := &guest{talk: talk{fd: fd}, due: time.Now().Add(guestTime), way: wayOf(fd, sa)}
		if g.key, err = p.lobby.add(fd, g, unix.EPOLLIN); err != nil {
			_ = unix.Close(fd)
			return
		}
		if len(p.guests) == maxGuests {
			p.stats.Crowded++
			p.dismiss(p.guests[0])
		}
		p.guests = append(p.guests, g)
		p.alarm(g.due)
		p.attend(g)
	}
}

// attend takes a handshake as far as it goes now.
func (p *Provider) attend(g *guest) {
	if g.hello == nil && !p.greet(g) {
		return
	}
	b, err := g.hear(proofBytes)
	if err != nil { // a peer does so whose own call was answered meanwhile
		p.dismiss(g)
		return
	}
	if b == nil {
		return
	}
	var s statement
	if !s.open(p.cfg.Secret, roleDialler, g.transcript, b) {
		p.stats.Forgers++
		p.once("forger", "tcp: refused %s, which does not know the job's secret; more of these are counted, not logged", g.way.from())
		p.dismiss(g)
		return
	}
	g.note(b)
	p.receive(g, &s)
}

// greet hears the hello and answers it; false: the proof is not due yet.
func (p *Provider) greet(g *guest) bool {
	b, err := g.hear(helloBytes)
	if b == nil && err == nil {
		return false
	}
	if b == nil {
		p.stats.Strangers++
		p.dismiss(g)
		return false
	}
	h, ok := decodeHello(b)
	if !ok {
		p.stats.Strangers++
		p.once("stranger", "tcp: refused %s, which is no peer; more of these are counted, not logged", g.way.from())
		p.dismiss(g)
		return false
	}
	ch := challenge{version: handshakeVersion}
	_, _ = rand.Read(ch.nonce[:]) // never fails: it ends the program instead
	answer := ch.encode()
	h.address = bytes.Clone(h.address)
	g.note(b)
	g.note(answer)
	err = g.say(answer)
	if h.version != handshakeVersion {
		p.stats.Versions++
		p.once("version", "tcp: refused %s, which speaks version %d, this process %d: start all processes from one build", g.way.from(), h.version, handshakeVersion)
		p.dismiss(g)
		return false
	}
	if err != nil {
		p.stats.Strangers++
		p.dismiss(g)
		return false
	}
	g.hello = &h
	return true
}

// receive lets a guest in that knows the secret, or tells it why not.
func (p *Provider) receive(g *guest, s *statement) {
	h := g.hello
	a, err := decodeAddress(h.address)
	if err != nil || h.to != p.cfg.Self || h.toBorn != p.self.born || int64(h.from) >= int64(p.cfg.MaxProcs) || h.from == p.cfg.Self {
		p.stats.Misled++
		p.once("misled", "tcp: refused %s, which says it is %v and means %v, in this job or another: this is %v; more of these are counted, not logged", g.way.from(), h.from, h.to, p.cfg.Self)
		p.dismiss(g)
		return
	}
	c := p.conns[h.from]
	if c != nil && c.state == up && g.left() { // for the connection that there is
		p.dismiss(g)
		return
	}
	owed := c != nil && c.state != over && c.out.kept() // it has not got everything from us
	if p.departing && !owed {
		p.answer(g, &statement{outcome: departed})
		p.dismiss(g)
		return
	}
	if c != nil && p.sink == nil && (c.state == up || p.departing) { // Poll goes on: it delivers what is left first
		g.proof = s
		p.lobby.forget(g.fd, g.key)
		p.postponed = append(p.postponed, g)
		return
	}
	first := c == nil
	if first {
		c = p.newConn(h.from, &a)
	}
	out := p.judge(c, &a)
	if out == admitted && c.state == up {
		p.drain(c)
		out = p.judge(c, &a)
	}
	ok := p.answer(g, &statement{taken: c.got, outcome: out})
	if out != admitted || !ok {
		if first { // it was never met
			delete(p.conns, h.from)
		}
		p.dismiss(g)
		return
	}
	p.stats.Admitted++
	p.leave(g)
	c.hangUp()
	c.adopt(g.fd, g.way, s)
}

// left reports whether the guest has closed the connection.
func (g *guest) left() bool {
	var b [1]byte
	n, _, err := unix.Recvfrom(g.fd, b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
	return n == 0 && err == nil || err != nil && err != unix.EAGAIN
}

// admitPostponed receives those who could not be while nobody polled.
func (p *Provider) admitPostponed() int {
	guests := p.postponed
	p.postponed = nil
	for _, g := range guests {
		if slices.Contains(p.guests, g) {
			p.receive(g, g.proof)
		}
	}
	return len(guests)
}

// judge decides about a dial by c's peer.
func (p *Provider) judge(c *Conn, a *address) outcome {
	switch {
	case c.state == over || c.silenced || c.target.born != a.born:
		return banned
	case c.dial != nil && c.dial.stage == proved && p.cfg.Self < c.peer:
		return tied
	}
	return admitted
}

// drain reads what is left of a connection that its peer gives up for a new one.
func (p *Provider) drain(c *Conn) {
	for c.state == up {
		if n := c.receive(p.sink); n == 0 {
			break
		}
	}
	c.in.reset()
}

// answer gives the verdict.
func (p *Provider) answer(g *guest, s *statement) bool {
	s.outbox = uint32(p.cfg.Outbox)
	return g.say(s.seal(p.cfg.Secret, roleAcceptor, g.transcript)) == nil
}

// dismiss disconnects a guest.
func (p *Provider) dismiss(g *guest) {
	p.leave(g)
	_ = unix.Close(g.fd)
}

// leave takes a guest out of the lobby.
func (p *Provider) leave(g *guest) {
	p.lobby.forget(g.fd, g.key)
	for i := range p.guests {
		if p.guests[i] == g {
			p.guests = append(p.guests[:i], p.guests[i+1:]...)
			return
		}
	}
}

// expire disconnects the guests whose time is over.
func (p *Provider) expire(now time.Time) {
	for len(p.guests) > 0 && !p.guests[0].due.After(now) {
		p.stats.Dawdlers++
		p.once("dawdler", "tcp: disconnected %s, which had not ended its handshake after %v", p.guests[0].way.from(), guestTime)
		p.dismiss(p.guests[0])
	}
}
