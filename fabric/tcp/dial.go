package tcp

import (
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"time"

	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/internal/proc"
)

type dial struct {
	exchange
	stage   dialStage
	path    path
	started time.Time
}

type dialStage uint8

const (
	connecting dialStage = iota
	helloSent            // hello is sent
	proofSent            // the proof is sent
)

const (
	// connectTime is how long an address may take to answer before the next is tried, dialSilence
	// how long one that has answered may be silent if there are others.
	connectTime = time.Second
	dialSilence = 5 * time.Second
	// localTime is connectTime within this machine, whose kernel answers at once, unless the port is
	// being closed.
	localTime = 10 * time.Millisecond
	// callWait is how long a process that answers the call of a peer does not call it itself.
	callWait = 100 * time.Millisecond
	// firstPause and longestPause are the pauses between two rounds of attempts.
	firstPause   = 5 * time.Millisecond
	longestPause = time.Second
)

// paths lists the paths to the peer, best first.
func (p *Provider) paths(a *address) []path {
	ws := make([]path, 0, 1+len(a.addrs))
	local := a.net == p.self.net
	if p.cfg.Unix && local && a.unix != [unixBytes]byte{} {
		ws = append(ws, path{unix: true, local: true})
	}
	if !p.cfg.Inet {
		return ws
	}
	for _, ap := range a.addrs {
		if local || !ap.Addr().IsLoopback() {
			ws = append(ws, path{local: local, there: ap})
		}
	}
	return ws
}

// dialNext starts an attempt on the current path.
func (c *Conn) dialNext(now time.Time) {
	if len(c.paths) == 0 { // the peer has dialled, and only it can
		c.nextPath(now)
		return
	}
	w := c.paths[c.pathIndex]
	fd, err := c.p.connect(w, &c.peerAddress)
	switch {
	case errors.Is(err, unix.ECONNREFUSED):
		c.portClosed(now)
	case err != nil:
		c.attemptFailed(now, err)
	default:
		c.state, c.deadline = dialling, now.Add(connectTime)
		if w.local {
			c.deadline = now.Add(localTime)
		}
		c.p.alarm(c.deadline)
		c.dial = &dial{exchange: exchange{fd: fd}, path: w, started: now}
		if c.dial.key, err = c.p.connSet.add(fd, c, unix.EPOLLOUT); err != nil {
			c.attemptFailed(now, err)
			return
		}
		c.advance(now)
	}
}

// connect makes a socket and starts to connect it.
func (p *Provider) connect(w path, a *address) (int, error) {
	if w.unix {
		return connectTo(unix.AF_UNIX, unixName(a.unix))
	}
	domain, sa := sockaddr(w.there)
	return connectTo(domain, sa)
}

func connectTo(domain int, sa unix.Sockaddr) (int, error) {
	fd, err := unix.Socket(domain, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("socket: %w", err)
	}
	tune(fd, domain)
	if err := unix.Connect(fd, sa); err != nil && !errors.Is(err, unix.EINPROGRESS) {
		_ = unix.Close(fd)
		return -1, fmt.Errorf("connect: %w", err)
	}
	return fd, nil
}

// advance continues an attempt as far as possible.
func (c *Conn) advance(now time.Time) {
	d := c.dial
	var err error
	if d.stage == connecting {
		if err = c.sendHello(now); err == nil && d.stage == connecting {
			return
		}
	}
	if err == nil && d.stage == helloSent {
		err = c.sendProof(now)
	}
	if err == nil && c.dial == d && d.stage == proofSent {
		err = c.readVerdict(now)
	}
	if err == nil || c.dial != d {
		return
	}
	c.hangUp()
	if errors.Is(err, unix.ECONNREFUSED) {
		c.portClosed(now)
		return
	}
	c.attemptFailed(now, err)
}

// sendHello sends hello once the socket is connected.
func (c *Conn) sendHello(now time.Time) error {
	d := c.dial
	fds := []unix.PollFd{{Fd: int32(d.fd), Events: unix.POLLOUT}}
	if n, err := unix.Poll(fds, 0); n == 0 || err != nil {
		return nil
	}
	if e, err := unix.GetsockoptInt(d.fd, unix.SOL_SOCKET, unix.SO_ERROR); err != nil {
		return err
	} else if e != 0 {
		return unix.Errno(e)
	}
	h := hello{version: handshakeVersion, from: c.p.cfg.Self, to: c.peer, toBorn: c.peerAddress.born, address: c.p.blob}
	_, _ = rand.Read(h.nonce[:]) // never fails: it ends the program instead
	b := h.encode()
	d.record(b)
	if err := d.writeMessage(b); err != nil {
		return err
	}
	d.stage = helloSent
	d.path.here = localName(d.fd)
	c.awaitAnswer(now)
	return c.p.connSet.change(d.fd, d.key, unix.EPOLLIN)
}

// awaitAnswer sets the time for the peer's next message. Its machine has answered; whether the
// process does is for the failure detector.
func (c *Conn) awaitAnswer(now time.Time) {
	c.deadline = time.Time{}
	if len(c.paths) > 1 {
		c.deadline = now.Add(dialSilence)
		c.p.alarm(c.deadline)
	}
}

var (
	errNotPeer = errors.New("the process at that address does not use this protocol")
	errSecret  = errors.New("the other side cannot prove that it knows the job's secret")
)

// sendProof answers the challenge.
func (c *Conn) sendProof(now time.Time) error {
	d := c.dial
	b, err := d.readMessage(challengeBytes)
	if b == nil || err != nil {
		return err
	}
	ch, ok := decodeChallenge(b)
	if !ok || ch.version != handshakeVersion { // the peer's address is of this version
		return errNotPeer
	}
	d.record(b)
	s := statement{taken: c.got, outbox: uint32(c.p.cfg.Outbox)}
	proof := s.seal(c.p.cfg.Secret, roleDialler, d.transcript)
	d.record(proof)
	if err := d.writeMessage(proof); err != nil {
		return err
	}
	d.stage = proofSent
	c.awaitAnswer(now)
	return nil
}

// readVerdict handles the verdict.
func (c *Conn) readVerdict(now time.Time) error {
	d := c.dial
	b, err := d.readMessage(verdictBytes)
	if b == nil || err != nil {
		return err
	}
	var s statement
	if !s.open(c.p.cfg.Secret, roleAcceptor, d.transcript, b) {
		return errSecret
	}
	switch s.outcome {
	case accepted:
		c.dial = nil
		c.p.connSet.forget(d.fd, d.key)
		c.adopt(d.fd, d.path, &s)
	case duplicate: // the peer's own dial is in progress
		c.hangUp()
		c.scheduleRetry(now, longestPause)
	case rejected:
		if c.p.departing { // the peer has our last frame, though not the acknowledgement
			c.finish()
			return nil
		}
		c.reportEnd(c.endCauseOf(proc.Refused)) // the peer may have given up first
	case noResources:
		err := fmt.Errorf("the other side cannot take a connection: %w", s.shortage)
		if !isPressure(s.shortage) { // an error of the other side is none of this one's calls
			err = errors.New(err.Error())
		}
		return err
	case departed:
		c.reportEnd(proc.Cause{Kind: proc.Departed})
	}
	return nil
}

// adopt continues over a socket on which both sides are authenticated.
func (c *Conn) adopt(fd int, w path, s *statement) {
	key, err := c.p.connSet.add(fd, c, unix.EPOLLIN)
	if err != nil {
		_ = unix.Close(fd)
		c.broke(err)
		return
	}
	c.fd, c.key, c.path, c.outbox = fd, key, w, s.outbox
	if !w.unix && w.here.Addr() == w.there.Addr() {
		tuneLocal(fd)
	}
	returned := c.out.resume(s.taken, c.got)
	if returned < 0 {
		c.reportEnd(proc.Cause{Kind: proc.Corrupt})
		return
	}
	c.state, c.deadline, c.retryPause, c.refusedPaths, c.pathIndex = up, time.Time{}, 0, 0, 0
	c.unackedBytes, c.acked = 0, math.MaxUint64
	if c.wasUp {
		c.p.stats.reconnects.Add(1)
		c.healed++
		c.p.cfg.Log.Info("connected again", "peer", int(c.peer), "path", w.String(),
			"after", time.Since(c.downSince).Round(time.Millisecond))
	} else {
		c.p.cfg.Log.Info("connected", "peer", int(c.peer), "path", w.String())
	}
	c.wasUp = true
	c.p.reconnected(c)
	c.p.returnLoans(c, returned)
	c.flush()
	c.credit()
}
