package tcp

import (
	"bytes"
	"crypto/rand"
	"errors"
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
	talk       // fd is -1 once it has gone, or become a peer's connection
	domain int // of its socket
	way    way // without this end's address
	due    time.Time
	hello  *hello     // nil until heard
	mark   int32      // the last key of Provider.inner then
	proof  *statement // of one that is postponed
}

// lobbyRound looks at the listeners and the guests. Between Depart and Close a
// goroutine calls it too, so it touches nothing else then.
func (p *Provider) lobbyRound() {
	var events [32]unix.EpollEvent
	n := epollNow(p.lobby.fd, events[:])
	for _, ev := range events[:n] {
		p.heed(ev, acceptBatch)
	}
}

// leisure reports whether this turn of Poll, which has heard n things so far, has time
// for a guest: the first turn after something was heard, when the answer to what
// this process has sent since is farthest away, and some of the later ones. So
// strangers who come in a burst are looked at one by one, with looks at the connection
// that counts in between.
func (p *Provider) leisure(n int) bool {
	return n == 0 && p.quiet == 2 || p.quiet%leisureStride == 0 || p.turns%stride == 0 || p.quiet >= loyalty
}

const leisureStride = 16

// lobbyStep looks at one of those who have knocked.
func (p *Provider) lobbyStep() int {
	var events [1]unix.EpollEvent
	if epollNow(p.lobby.fd, events[:]) == 0 {
		p.knocked = false
		return 0
	}
	p.heed(events[0], 1)
	return 1
}

// heed lets newcomers in, so many at most, or takes a handshake further.
func (p *Provider) heed(ev unix.EpollEvent, newcomers int) {
	switch who := p.lobby.who(ev).(type) {
	case *listener:
		for ; newcomers > 0 && p.accept(who); newcomers-- {
		}
	case *guest:
		p.attend(who)
	}
}

// accept lets a newcomer in; false: there is none. Most strangers are gone again
// before the call returns, so what only a peer or a patient one needs is done for
// those alone: socket options after the proof, epoll if more has to come.
func (p *Provider) accept(l *listener) bool {
	fd, sa, err := unix.Accept4(l.fd, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
	if err != nil && isPressure(err) {
		p.once("accept", "tcp: cannot take a connection: %v: raise the limit of open files (ulimit -n)", err)
		if p.spend() {
			fd, sa, err = unix.Accept4(l.fd, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		}
	}
	switch {
	case err == nil:
	case isPressure(err):
		p.deafen(l)
		return false
	default:
		return err == unix.ECONNABORTED || err == unix.EINTR
	}
	if len(p.guests) == maxGuests {
		p.stats.crowded.Add(1)
		p.dismiss(p.guests[0])
	}
	g := &guest{talk: talk{fd: fd}, domain: l.domain, due: time.Now().Add(guestTime), way: wayOf(sa)}
	p.guests = append(p.guests, g)
	p.attend(g)
	if g.fd < 0 {
		return true
	}
	p.alarm(g.due)
	if g.proof != nil { // Poll goes on with it
		return true
	}
	if g.key, err = p.lobby.add(fd, g, unix.EPOLLIN); err != nil {
		p.dismiss(g)
	}
	return true
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
		p.stats.forgers.Add(1)
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
	if b == nil && err == nil && helloBegins(g.buf[:g.got]) {
		return false
	}
	if err != nil {
		p.stats.strangers.Add(1)
		p.dismiss(g)
		return false
	}
	h, ok := decodeHello(b)
	if !ok {
		p.stats.strangers.Add(1)
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
		p.stats.versions.Add(1)
		p.once("version", "tcp: refused %s, which speaks version %d, this process %d: start all processes from one build", g.way.from(), h.version, handshakeVersion)
		p.dismiss(g)
		return false
	}
	if err != nil {
		p.stats.strangers.Add(1)
		p.dismiss(g)
		return false
	}
	g.hello, g.mark = &h, p.inner.last
	return true
}

// receive lets a guest in that knows the secret, or tells it why not.
func (p *Provider) receive(g *guest, s *statement) {
	h := g.hello
	a, err := decodeAddress(h.address)
	if err != nil || h.to != p.cfg.Self || h.toBorn != p.self.born || int64(h.from) >= int64(p.cfg.MaxProcs) || h.from == p.cfg.Self {
		p.stats.misled.Add(1)
		p.once("misled", "tcp: refused %s, which says it is %v and means %v, in this job or another: this is %v; more of these are counted, not logged", g.way.from(), h.from, h.to, p.cfg.Self)
		p.dismiss(g)
		return
	}
	c := p.conns[h.from]
	if g.left() || c != nil && c.overtook(g, s) {
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
	p.strike(g) // whatever happens below, it is not one of the crowd
	out := p.judge(c, &a)
	if out == admitted && c.state == up {
		p.drain(c)
		out = p.judge(c, &a)
	}
	verdict := statement{taken: c.got, outcome: out}
	if out == admitted && c.fd < 0 && c.dial == nil {
		if err := p.afford(); err != nil {
			verdict.outcome = lacking
			verdict.want, _ = errors.AsType[unix.Errno](err)
		}
	}
	ok := p.answer(g, &verdict)
	if verdict.outcome != admitted || !ok {
		p.dismiss(g)
		p.turnAway(c, first, verdict.want)
		return
	}
	p.stats.admitted.Add(1)
	fd := p.leave(g)
	c.hangUp()
	_ = p.stock() // if what has been hung up leaves one
	c.in.reset()
	tune(fd, g.domain)
	if !g.way.unix {
		g.way.here = localName(fd)
	}
	c.adopt(fd, g.way, s)
}

// turnAway decides what becomes of c, whose peer has called and not been let in, for
// want of something perhaps; 0: of nothing.
func (p *Provider) turnAway(c *Conn, first bool, want unix.Errno) {
	switch now := time.Now(); {
	case first && want == 0: // it was never met
		delete(p.conns, c.peer)
	case c.state != resting || slices.Contains(p.mending, c):
	case want != 0: // both try, and say so if it lasts
		if first {
			c.since = now
		}
		c.why = want
		c.mend(now)
	default: // drain has found it broken, and the peer has not been told
		c.mend(now)
	}
}

// overtook reports whether the guest's call was given up by its peer for the
// connection that there is, or was: it had said hello before that was made, and a peer
// that lets another call in, or makes another, hangs up the one before; the proof of
// which may be on its way still. Or it says that it has taken less than it is known
// to have.
func (c *Conn) overtook(g *guest, s *statement) bool {
	return c.state == up && c.key > g.mark || c.state != over && c.out.outdated(s.taken)
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
	case p.gone[c.peer] || c.state == over || c.silenced || c.target.born != a.born:
		return banned
	case c.dial != nil && c.dial.stage == proved && p.cfg.Self < c.peer:
		return tied
	}
	return admitted
}

// drain reads what is left of a connection that its peer gives up for a new one.
func (p *Provider) drain(c *Conn) {
	c.replaced = true
	for c.state == up {
		if n := c.receive(p.sink); n == 0 {
			break
		}
	}
	c.replaced = false
}

// answer gives the verdict.
func (p *Provider) answer(g *guest, s *statement) bool {
	s.outbox = uint32(p.cfg.Outbox)
	return g.say(s.seal(p.cfg.Secret, roleAcceptor, g.transcript)) == nil
}

// dismiss disconnects a guest. That its descriptor is closed takes it out of epoll,
// too.
func (p *Provider) dismiss(g *guest) {
	delete(p.lobby.of, g.key)
	p.strike(g)
	_ = unix.Close(g.fd)
	g.fd = -1
	_ = p.stock()
}

// leave has a guest that is a peer leave the lobby, and gives its descriptor.
func (p *Provider) leave(g *guest) (fd int) {
	p.lobby.forget(g.fd, g.key)
	p.strike(g)
	fd, g.fd = g.fd, -1
	return fd
}

// strike takes a guest off the list.
func (p *Provider) strike(g *guest) {
	if i := slices.Index(p.guests, g); i >= 0 {
		p.guests = slices.Delete(p.guests, i, i+1)
	}
}

// expire disconnects the guests whose time is over.
func (p *Provider) expire(now time.Time) {
	for len(p.guests) > 0 && !p.guests[0].due.After(now) {
		p.stats.dawdlers.Add(1)
		p.once("dawdler", "tcp: disconnected %s, which had not ended its handshake after %v", p.guests[0].way.from(), guestTime)
		p.dismiss(p.guests[0])
	}
}
