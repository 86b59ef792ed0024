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
	// maxHandshakes wait for the end of their handshake at most; when one more comes the
	// oldest has to go. A peer that has to is back at once.
	maxHandshakes = 128
	// handshakeTimeout is how long a handshake may take.
	handshakeTimeout = 5 * time.Second
	// acceptBatch bounds how many are let in before other things are looked at.
	acceptBatch = 16
)

// handshake is who has connected and not proved yet that it is a peer.
type handshake struct {
	exchange        // fd is -1 once it has gone, or become a peer's connection
	domain     int  // of its socket
	path       path // without this end's address
	due        time.Time
	hello      *hello     // nil until heard
	keyAtHello int32      // the last key of Provider.inner then
	proof      *statement // of one that is postponed
}

// acceptRound looks at the listeners and the guests. Between Depart and Close a
// goroutine calls it too, so it touches nothing else then.
func (p *Provider) acceptRound() {
	var events [32]unix.EpollEvent
	n := epollNow(p.handshakeSet.fd, events[:])
	for _, ev := range events[:n] {
		p.serveHandshake(ev, acceptBatch)
	}
}

// mayAccept reports whether this turn of Poll, which has heard n things so far, has time
// for a guest: the first turn after something was heard, when the answer to what
// this process has sent since is farthest away, and some of the later ones. So
// strangers who come in a burst are looked at one by one, with looks at the connection
// that counts in between.
func (p *Provider) mayAccept(n int) bool {
	return n == 0 && p.idlePolls == 2 || p.idlePolls%acceptStride == 0 || p.polls%stride == 0 || p.idlePolls >= recentPolls
}

const acceptStride = 16

// acceptStep looks at one of those who have knocked.
func (p *Provider) acceptStep() int {
	var events [1]unix.EpollEvent
	if epollNow(p.handshakeSet.fd, events[:]) == 0 {
		p.acceptReady = false
		return 0
	}
	p.serveHandshake(events[0], 1)
	return 1
}

// serveHandshake lets newcomers in, so many at most, or takes a handshake further.
func (p *Provider) serveHandshake(ev unix.EpollEvent, newcomers int) {
	switch who := p.handshakeSet.owner(ev).(type) {
	case *listener:
		for ; newcomers > 0 && p.accept(who); newcomers-- {
		}
	case *handshake:
		p.advanceHandshake(who)
	}
}

// accept lets a newcomer in; false: there is none. Most strangers are gone again
// before the call returns, so what only a peer or a patient one needs is done for
// those alone: socket options after the proof, epoll if more has to come.
func (p *Provider) accept(l *listener) bool {
	fd, sa, err := unix.Accept4(l.fd, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
	if err != nil && isPressure(err) {
		p.logOnce("accept", "tcp: cannot take a connection: %v: raise the limit of open files (ulimit -n)", err)
		if p.useReserve() {
			fd, sa, err = unix.Accept4(l.fd, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		}
	}
	switch {
	case err == nil:
	case isPressure(err):
		p.pauseAccept(l)
		return false
	default:
		return err == unix.ECONNABORTED || err == unix.EINTR
	}
	if len(p.handshakes) == maxHandshakes {
		p.stats.evicted.Add(1)
		p.drop(p.handshakes[0])
	}
	g := &handshake{exchange: exchange{fd: fd}, domain: l.domain, due: time.Now().Add(handshakeTimeout), path: pathOf(sa)}
	p.handshakes = append(p.handshakes, g)
	p.advanceHandshake(g)
	if g.fd < 0 {
		return true
	}
	p.alarm(g.due)
	if g.proof != nil { // Poll goes on with it
		return true
	}
	if g.key, err = p.handshakeSet.add(fd, g, unix.EPOLLIN); err != nil {
		p.drop(g)
	}
	return true
}

// advanceHandshake takes a handshake as far as it goes now.
func (p *Provider) advanceHandshake(g *handshake) {
	if g.hello == nil && !p.readHello(g) {
		return
	}
	b, err := g.readMessage(proofBytes)
	if err != nil { // a peer does so whose own call was answered meanwhile
		p.drop(g)
		return
	}
	if b == nil {
		return
	}
	var s statement
	if !s.open(p.cfg.Secret, roleDialler, g.transcript, b) {
		p.stats.unauthenticated.Add(1)
		p.logOnce("forger", "tcp: refused %s, which does not know the job's secret; more of these are counted, not logged", g.path.peerName())
		p.drop(g)
		return
	}
	g.record(b)
	p.admit(g, &s)
}

// readHello hears the hello and answers it; false: the proof is not due yet.
func (p *Provider) readHello(g *handshake) bool {
	b, err := g.readMessage(helloBytes)
	if b == nil && err == nil && helloBegins(g.buf[:g.got]) {
		return false
	}
	if err != nil {
		p.stats.notPeer.Add(1)
		p.drop(g)
		return false
	}
	h, ok := decodeHello(b)
	if !ok {
		p.stats.notPeer.Add(1)
		p.logOnce("stranger", "tcp: refused %s, which is no peer; more of these are counted, not logged", g.path.peerName())
		p.drop(g)
		return false
	}
	ch := challenge{version: handshakeVersion}
	_, _ = rand.Read(ch.nonce[:]) // never fails: it ends the program instead
	answer := ch.encode()
	h.address = bytes.Clone(h.address)
	g.record(b)
	g.record(answer)
	err = g.writeMessage(answer)
	if h.version != handshakeVersion {
		p.stats.otherVersion.Add(1)
		p.logOnce("version", "tcp: refused %s, which speaks version %d, this process %d: start all processes from one build", g.path.peerName(), h.version, handshakeVersion)
		p.drop(g)
		return false
	}
	if err != nil {
		p.stats.notPeer.Add(1)
		p.drop(g)
		return false
	}
	g.hello, g.keyAtHello = &h, p.connSet.last
	return true
}

// admit lets a guest in that knows the secret, or tells it why not.
func (p *Provider) admit(g *handshake, s *statement) {
	h := g.hello
	a, err := decodeAddress(h.address)
	if err != nil || h.to != p.cfg.Self || h.toBorn != p.self.born || int64(h.from) >= int64(p.cfg.MaxProcs) || h.from == p.cfg.Self {
		p.stats.misdirected.Add(1)
		p.logOnce("misled", "tcp: refused %s, which says it is %v and means %v, in this job or another: this is %v; more of these are counted, not logged", g.path.peerName(), h.from, h.to, p.cfg.Self)
		p.drop(g)
		return
	}
	c := p.conns[h.from]
	if g.peerClosed() || c != nil && c.superseded(g, s) {
		p.drop(g)
		return
	}
	owed := c != nil && c.state != ended && c.out.kept() // it has not got everything from us
	if p.departing && !owed {
		p.sendVerdict(g, &statement{outcome: departed})
		p.drop(g)
		return
	}
	if c != nil && p.sink == nil && (c.state == up || p.departing) { // Poll goes on: it delivers what is left first
		g.proof = s
		p.handshakeSet.forget(g.fd, g.key)
		p.postponed = append(p.postponed, g)
		return
	}
	first := c == nil
	if first {
		c = p.newConn(h.from, &a)
	}
	p.unlist(g) // whatever happens below, it is not one of the crowd
	out := p.decide(c, &a)
	if out == accepted && c.state == up {
		p.drainReplaced(c)
		out = p.decide(c, &a)
	}
	verdict := statement{taken: c.got, outcome: out}
	if out == accepted && c.fd < 0 && c.dial == nil {
		if err := p.ensureReserve(); err != nil {
			verdict.outcome = noResources
			verdict.shortage, _ = errors.AsType[unix.Errno](err)
		}
	}
	ok := p.sendVerdict(g, &verdict)
	if verdict.outcome != accepted || !ok {
		p.drop(g)
		p.afterRefusal(c, first, verdict.shortage)
		return
	}
	p.stats.accepted.Add(1)
	fd := p.takeSocket(g)
	c.hangUp()
	_ = p.fillReserve() // if what has been hung up leaves one
	c.in.reset()
	tune(fd, g.domain)
	if !g.path.unix {
		g.path.here = localName(fd)
	}
	c.adopt(fd, g.path, s)
}

// afterRefusal decides what becomes of c, whose peer has called and not been let in, for
// want of something perhaps; 0: of nothing.
func (p *Provider) afterRefusal(c *Conn, first bool, want unix.Errno) {
	switch now := time.Now(); {
	case first && want == 0: // it was never met
		delete(p.conns, c.peer)
	case c.state != waiting || slices.Contains(p.reconnecting, c):
	case want != 0: // both try, and say so if it lasts
		if first {
			c.downSince = now
		}
		c.lastError = want
		c.reconnect(now)
	default: // drain has found it broken, and the peer has not been told
		c.reconnect(now)
	}
}

// superseded reports whether the guest's call was given up by its peer for the
// connection that there is, or was: it had said hello before that was made, and a peer
// that lets another call in, or makes another, hangs up the one before; the proof of
// which may be on its way still. Or it says that it has taken less than it is known
// to have.
func (c *Conn) superseded(g *handshake, s *statement) bool {
	return c.state == up && c.key > g.keyAtHello || c.state != ended && c.out.outdated(s.taken)
}

// peerClosed reports whether the guest has closed the connection.
func (g *handshake) peerClosed() bool {
	var b [1]byte
	n, _, err := unix.Recvfrom(g.fd, b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
	return n == 0 && err == nil || err != nil && err != unix.EAGAIN
}

// admitPostponed receives those who could not be while nobody polled.
func (p *Provider) admitPostponed() int {
	guests := p.postponed
	p.postponed = nil
	for _, g := range guests {
		if slices.Contains(p.handshakes, g) {
			p.admit(g, g.proof)
		}
	}
	return len(guests)
}

// decide decides about a dial by c's peer.
func (p *Provider) decide(c *Conn, a *address) outcome {
	switch {
	case p.gone[c.peer] || c.state == ended || c.invalidated || c.peerAddress.born != a.born:
		return rejected
	case c.dial != nil && c.dial.stage == proofSent && p.cfg.Self < c.peer:
		return duplicate
	}
	return accepted
}

// drainReplaced reads what is left of a connection that its peer gives up for a new one.
func (p *Provider) drainReplaced(c *Conn) {
	c.replaced = true
	for c.state == up {
		if n := c.receive(p.sink); n == 0 {
			break
		}
	}
	c.replaced = false
}

// sendVerdict gives the verdict.
func (p *Provider) sendVerdict(g *handshake, s *statement) bool {
	s.outbox = uint32(p.cfg.Outbox)
	return g.writeMessage(s.seal(p.cfg.Secret, roleAcceptor, g.transcript)) == nil
}

// drop disconnects a guest. That its descriptor is closed takes it out of epoll,
// too.
func (p *Provider) drop(g *handshake) {
	delete(p.handshakeSet.of, g.key)
	p.unlist(g)
	_ = unix.Close(g.fd)
	g.fd = -1
	_ = p.fillReserve()
}

// takeSocket has a guest that is a peer leave the lobby, and gives its descriptor.
func (p *Provider) takeSocket(g *handshake) (fd int) {
	p.handshakeSet.forget(g.fd, g.key)
	p.unlist(g)
	fd, g.fd = g.fd, -1
	return fd
}

// unlist takes a guest off the list.
func (p *Provider) unlist(g *handshake) {
	if i := slices.Index(p.handshakes, g); i >= 0 {
		p.handshakes = slices.Delete(p.handshakes, i, i+1)
	}
}

// expireHandshakes disconnects the guests whose time is over.
func (p *Provider) expireHandshakes(now time.Time) {
	for len(p.handshakes) > 0 && !p.handshakes[0].due.After(now) {
		p.stats.timedOut.Add(1)
		p.logOnce("dawdler", "tcp: disconnected %s, which had not ended its handshake after %v", p.handshakes[0].path.peerName(), handshakeTimeout)
		p.drop(p.handshakes[0])
	}
}
