package tcp

import (
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/internal/proc"
)

const (
	// maxHandshakes bounds the handshakes in progress; one more evicts the oldest. An evicted peer
	// connects again at once.
	maxHandshakes = 128
	// handshakeTimeout bounds the time of a handshake.
	handshakeTimeout = 5 * time.Second
	// acceptBatch bounds how many are accepted before other work is done.
	acceptBatch = 32
)

// handshake is an accepted connection that is not authenticated yet.
type handshake struct {
	exchange        // fd is -1 once it is closed, or is a peer's connection
	domain     int  // of its socket
	path       path // without this end's address
	due        time.Time
	hello      *hello     // nil until received
	keyAtHello int32      // the last key of Provider.connSet then
	proof      *statement // of a postponed handshake
}

// acceptRound serves the listeners and the handshakes. Between Depart and Close a goroutine calls
// it too, so it touches nothing else then.
func (p *Provider) acceptRound() {
	var events [32]unix.EpollEvent
	n := epollNow(p.handshakeSet.fd, events[:])
	for _, ev := range events[:n] {
		p.serveHandshake(ev, acceptBatch)
	}
}

// mayAccept returns how many handshakes this turn of Poll, which has found n events so far, has
// time for. In a process that has a core and no call of its own under way it is one, in the first
// turn after an arrival, when the answer to the last message of this process is farthest away, and
// in some of the later ones. So a burst of unauthenticated connections is served one by one, with
// polls of the recent connection in between. Others have time for a batch: where ranks share cores
// the next turn may come after all other ranks have had theirs, and a process with calls of its own
// waits for connections itself.
func (p *Provider) mayAccept(n int) int {
	switch {
	case p.cfg.Shared || n == 0 && len(p.reconnecting) > 0:
		return acceptBatch
	case n == 0 && p.idlePolls == 2 || p.idlePolls%acceptStride == 0 || p.polls%stride == 0 || p.idlePolls >= recentPolls:
		return 1
	}
	return 0
}

const acceptStride = 16

// acceptSome serves at most so many handshakes or newcomers.
func (p *Provider) acceptSome(most int) int {
	var events [acceptBatch]unix.EpollEvent
	n := epollNow(p.handshakeSet.fd, events[:most])
	p.acceptReady = n > 0
	for _, ev := range events[:n] {
		p.serveHandshake(ev, most)
	}
	return n
}

// serveHandshake accepts at most so many newcomers, or continues a handshake.
func (p *Provider) serveHandshake(ev unix.EpollEvent, newcomers int) {
	switch who := p.handshakeSet.owner(ev).(type) {
	case *listener:
		for ; newcomers > 0 && p.accept(who); newcomers-- {
		}
	case *handshake:
		p.advanceHandshake(who)
	}
}

// accept accepts a newcomer; false: there is none. Most unauthenticated connections are closed
// again before the call returns, so the work that only a peer needs is done later: socket options
// after the proof, epoll if more data have to come.
func (p *Provider) accept(l *listener) bool {
	fd, sa, err := unix.Accept4(l.fd, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
	if err != nil && isPressure(err) {
		p.logOnce("accept", "cannot take a connection: raise the limit of open files (ulimit -n)", "reason", err)
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
	hs := &handshake{exchange: exchange{fd: fd}, domain: l.domain, due: time.Now().Add(handshakeTimeout), path: pathOf(sa)}
	p.handshakes = append(p.handshakes, hs)
	p.advanceHandshake(hs)
	if hs.fd < 0 {
		return true
	}
	p.alarm(hs.due)
	if hs.proof != nil { // Poll continues it
		return true
	}
	if hs.key, err = p.handshakeSet.add(fd, hs, unix.EPOLLIN); err != nil {
		p.drop(hs)
	}
	return true
}

// advanceHandshake continues a handshake as far as possible.
func (p *Provider) advanceHandshake(hs *handshake) {
	if hs.hello == nil && !p.readHello(hs) {
		return
	}
	b, err := hs.readMessage(proofBytes)
	if err != nil { // for example, the peer's own call was answered meanwhile
		p.drop(hs)
		return
	}
	if b == nil {
		return
	}
	var s statement
	if !s.open(p.cfg.Secret, roleDialler, hs.transcript, b) {
		p.stats.unauthenticated.Add(1)
		p.refused("secret", hs, "it does not know the job's secret")
		p.drop(hs)
		return
	}
	hs.record(b)
	p.admit(hs, &s)
}

// readHello receives the hello and answers it; false: the proof is not due yet.
func (p *Provider) readHello(hs *handshake) bool {
	b, err := hs.readMessage(helloBytes)
	if b == nil && err == nil && helloBegins(hs.next(hs.got)) {
		return false
	}
	if err != nil {
		p.stats.notPeer.Add(1)
		p.drop(hs)
		return false
	}
	h, ok := decodeHello(b)
	if !ok {
		p.stats.notPeer.Add(1)
		p.refused("hello", hs, "it does not speak this protocol")
		p.drop(hs)
		return false
	}
	ch := challenge{version: handshakeVersion}
	_, _ = rand.Read(ch.nonce[:]) // never fails: it ends the program instead
	answer := ch.encode()
	hs.record(b)
	hs.record(answer)
	err = hs.writeMessage(answer)
	if h.version != handshakeVersion {
		p.stats.otherVersion.Add(1)
		p.refused("version", hs, fmt.Sprintf("it speaks version %d, this process %d: start all processes from one build",
			h.version, handshakeVersion))
		p.drop(hs)
		return false
	}
	if err != nil {
		p.stats.notPeer.Add(1)
		p.drop(hs)
		return false
	}
	hs.hello, hs.keyAtHello = &h, p.connSet.last
	return true
}

// isCalling reports whether a newcomer claims to be that peer and may still prove it.
func (p *Provider) isCalling(peer proc.ID) bool {
	return slices.ContainsFunc(p.handshakes, func(hs *handshake) bool {
		return hs.hello != nil && hs.hello.from == peer && p.isTarget(hs.hello)
	})
}

// isTarget reports whether a hello of a possible peer means this process.
func (p *Provider) isTarget(h *hello) bool {
	return h.to == p.cfg.Self && h.toBorn == p.self.born && h.from != p.cfg.Self &&
		int64(h.from) < int64(p.cfg.MaxProcs)
}

// admit accepts an authenticated peer, or sends the reason why not.
func (p *Provider) admit(hs *handshake, s *statement) {
	h := hs.hello
	a, err := decodeAddress(h.address)
	if err != nil || !p.isTarget(h) {
		p.stats.misdirected.Add(1)
		p.refused("target", hs, fmt.Sprintf("it is %v and means %v, in this job or another: this is %v",
			h.from, h.to, p.cfg.Self))
		p.drop(hs)
		return
	}
	c := p.conns[h.from]
	if hs.peerClosed() || c != nil && c.superseded(hs, s) {
		p.drop(hs)
		return
	}
	owed := c != nil && c.state != ended && c.out.kept() // it has not received everything from us
	if p.departing && !owed {
		p.sendVerdict(hs, &statement{outcome: departed})
		p.drop(hs)
		return
	}
	if c != nil && p.sink == nil && (c.state == up || p.departing) { // Poll continues: it delivers the rest first
		p.postpone(hs, s)
		return
	}
	first := c == nil
	if first {
		c = p.newConn(h.from, &a)
	}
	p.unlist(hs) // it is authenticated, so it no longer counts as a handshake
	out := p.decide(c, &a)
	if out == accepted && c.state == up {
		p.drainReplaced(c)
		out = p.decide(c, &a)
	}
	verdict := statement{taken: c.got, outcome: out}
	if out == accepted && c.fd < 0 && c.dial == nil { // the peer takes a descriptor more
		if err := p.ensureReserve(); err != nil {
			verdict.outcome = noResources
			verdict.shortage, _ = errors.AsType[unix.Errno](err)
		}
	}
	ok := p.sendVerdict(hs, &verdict)
	if verdict.outcome != accepted || !ok {
		p.drop(hs)
		p.afterRefusal(c, first, verdict.shortage)
		return
	}
	p.stats.accepted.Add(1)
	fd := p.takeSocket(hs)
	c.giveWay()
	tune(fd, hs.domain)
	if !hs.path.unix {
		hs.path.here = localName(fd)
	}
	c.adopt(fd, hs.path, s)
}

// giveWay closes the connection for the one that the peer has made instead.
func (c *Conn) giveWay() {
	if c.state == up { // the end of its stream has not come yet
		c.broken++
	}
	c.hangUp()
	_ = c.p.fillReserve() // if the closed socket was one
	c.in.reset()
}

// afterRefusal decides whether c, whose peer called and was refused, is kept. The refusal was for a
// shortage if want is not 0.
func (p *Provider) afterRefusal(c *Conn, first bool, want unix.Errno) {
	switch now := time.Now(); {
	case first && want == 0: // it was never connected
		delete(p.conns, c.peer)
	case c.state != waiting || slices.Contains(p.reconnecting, c):
	case want != 0: // both try, and report it if it lasts
		if first {
			c.downSince = now
		}
		c.lastError = want
		c.reconnect(now)
	default: // drainReplaced has found it broken, and the peer has no verdict
		c.reconnect(now)
	}
}

// superseded reports whether the peer has given up this handshake for the existing connection, or a
// later one: its hello came before that was made, and a peer that accepts another call, or makes
// another, closes the previous one, whose proof may still arrive. Or it acknowledges less than
// before.
func (c *Conn) superseded(hs *handshake, s *statement) bool {
	return c.state == up && c.key > hs.keyAtHello || c.state != ended && c.out.outdated(s.taken)
}

// peerClosed reports whether the other side has closed the connection.
func (hs *handshake) peerClosed() bool {
	var b [1]byte
	n, _, err := unix.Recvfrom(hs.fd, b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
	return n == 0 && err == nil || err != nil && err != unix.EAGAIN
}

// postpone leaves an authenticated handshake to Poll.
func (p *Provider) postpone(hs *handshake, s *statement) {
	hs.proof = s
	p.handshakeSet.forget(hs.fd, hs.key)
	p.postponed = append(p.postponed, hs)
}

// admitPostponed admits the handshakes that were complete while Poll did not run.
func (p *Provider) admitPostponed() int {
	waiting := p.postponed
	p.postponed = nil
	for _, hs := range waiting {
		if slices.Contains(p.handshakes, hs) {
			p.admit(hs, hs.proof)
		}
	}
	return len(waiting)
}

// decide returns the outcome of a call by c's peer.
func (p *Provider) decide(c *Conn, a *address) outcome {
	switch {
	case p.gone[c.peer] || c.state == ended || c.peerAddress.born != a.born:
		return rejected
	case c.dial != nil && c.dial.stage == proofSent && p.cfg.Self < c.peer:
		return duplicate
	}
	return accepted
}

// drainReplaced reads the rest of a connection that its peer gives up for a new one.
func (p *Provider) drainReplaced(c *Conn) {
	c.replaced, c.downSince = true, time.Now()
	for c.state == up && c.receive(p.sink) > 0 {
	}
	c.replaced = false
}

// sendVerdict sends the verdict.
func (p *Provider) sendVerdict(hs *handshake, s *statement) bool {
	s.outbox = uint32(p.cfg.Outbox)
	return hs.writeMessage(s.seal(p.cfg.Secret, roleAcceptor, hs.transcript)) == nil
}

// drop closes a handshake's connection. Closing the descriptor removes it from epoll, too.
func (p *Provider) drop(hs *handshake) {
	delete(p.handshakeSet.of, hs.key)
	p.unlist(hs)
	_ = unix.Close(hs.fd)
	hs.fd = -1
	_ = p.fillReserve()
}

// takeSocket removes a peer's handshake from the queue and returns its descriptor.
func (p *Provider) takeSocket(hs *handshake) (fd int) {
	p.handshakeSet.forget(hs.fd, hs.key)
	p.unlist(hs)
	fd, hs.fd = hs.fd, -1
	return fd
}

// unlist removes a handshake from the list.
func (p *Provider) unlist(hs *handshake) {
	if i := slices.Index(p.handshakes, hs); i >= 0 {
		p.handshakes = slices.Delete(p.handshakes, i, i+1)
	}
}

// refused logs the first rejected connection of each kind; all are counted.
func (p *Provider) refused(kind string, hs *handshake, why string) {
	p.logOnce(kind, "refused a connection; more of this kind are counted, not logged",
		"from", hs.path.peerName(), "reason", why)
}

// expireHandshakes closes the handshakes that have timed out.
func (p *Provider) expireHandshakes(now time.Time) {
	for _, hs := range slices.Clone(p.handshakes) {
		if hs.due.After(now) {
			return
		}
		if hs.fd >= 0 && hs.proof == nil {
			p.advanceHandshake(hs) // the rest may be there: this process looks late
		}
		if hs.fd >= 0 && hs.proof == nil {
			p.stats.timedOut.Add(1)
			p.refused("timeout", hs, fmt.Sprintf("it had not ended its handshake after %v", handshakeTimeout))
			p.drop(hs)
		}
	}
}
