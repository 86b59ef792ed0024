package tcp

import (
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/internal/proc"
)

// dial is an attempt to connect.
type dial struct {
	talk
	stage stage
	way   way
	begun time.Time
}

type stage uint8

const (
	connecting stage = iota
	greeted          // hello has been said
	proved           // the proof has been given
)

const (
	// connectTime is how long an address may take to answer before the next is
	// tried, silence how long one that has answered may say nothing if there are
	// others.
	connectTime = time.Second
	silence     = 5 * time.Second
	// firstPause and longestPause lie between two rounds of attempts.
	firstPause   = 5 * time.Millisecond
	longestPause = time.Second
)

// ways lists how the peer can be reached, best first.
func (p *Provider) ways(a *address) []way {
	var ws []way
	local := a.net == p.self.net
	if p.cfg.Unix && local && a.unix != [unixBytes]byte{} {
		ws = append(ws, way{unix: true, local: true})
	}
	if !p.cfg.Inet {
		return ws
	}
	for _, ap := range a.addrs {
		if local || !ap.Addr().IsLoopback() {
			ws = append(ws, way{local: local, there: ap})
		}
	}
	return ws
}

// start begins an attempt by the next way.
func (c *Conn) start(now time.Time) {
	if len(c.ways) == 0 { // it has dialled, and only it can
		c.next(now)
		return
	}
	w := c.ways[c.choice]
	fd, err := c.p.connect(w, &c.target)
	switch {
	case errors.Is(err, unix.ECONNREFUSED):
		c.refuse(now)
	case err != nil:
		c.miss(now, err)
	default:
		c.state, c.due = dialling, now.Add(connectTime)
		c.p.alarm(c.due)
		c.dial = &dial{talk: talk{fd: fd}, way: w, begun: now}
		if c.dial.key, err = c.p.inner.add(fd, c, unix.EPOLLOUT); err != nil {
			c.miss(now, err)
			return
		}
		c.advance(now)
	}
}

// connect makes a socket and has it connect.
func (p *Provider) connect(w way, a *address) (int, error) {
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

// advance takes an attempt as far as it goes now.
func (c *Conn) advance(now time.Time) {
	d := c.dial
	var err error
	if d.stage == connecting {
		if err = c.connected(now); err == nil && d.stage == connecting {
			return
		}
	}
	if err == nil && d.stage == greeted {
		err = c.prove()
	}
	if err == nil && c.dial == d && d.stage == proved {
		err = c.conclusion(now)
	}
	if err == nil || c.dial != d {
		return
	}
	c.hangUp()
	if errors.Is(err, unix.ECONNREFUSED) {
		c.refuse(now)
		return
	}
	c.miss(now, err)
}

// connected says hello once the socket is connected.
func (c *Conn) connected(now time.Time) error {
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
	h := hello{version: handshakeVersion, from: c.p.cfg.Self, to: c.peer, toBorn: c.target.born, address: c.p.blob}
	_, _ = rand.Read(h.nonce[:]) // never fails: it ends the program instead
	b := h.encode()
	d.note(b)
	if err := d.say(b); err != nil {
		return err
	}
	d.stage = greeted
	d.way.here = localName(d.fd)
	// Its machine has answered: whether the process does is not for us to judge.
	c.due = time.Time{}
	if len(c.ways) > 1 {
		c.due = now.Add(silence)
		c.p.alarm(c.due)
	}
	return c.p.inner.change(d.fd, d.key, unix.EPOLLIN)
}

var (
	errNotPeer = errors.New("what answers there does not speak this protocol")
	errSecret  = errors.New("the other side cannot prove that it knows the job's secret")
)

// prove answers the challenge.
func (c *Conn) prove() error {
	d := c.dial
	b, err := d.hear(challengeBytes)
	if b == nil || err != nil {
		return err
	}
	ch, ok := decodeChallenge(b)
	if !ok || ch.version != handshakeVersion { // the peer's address is of this version
		return errNotPeer
	}
	d.note(b)
	s := statement{taken: c.got, outbox: uint32(c.p.cfg.Outbox)}
	proof := s.seal(c.p.cfg.Secret, roleDialler, d.transcript)
	d.note(proof)
	if err := d.say(proof); err != nil {
		return err
	}
	d.stage = proved
	return nil
}

// conclusion heeds the verdict.
func (c *Conn) conclusion(now time.Time) error {
	d := c.dial
	b, err := d.hear(verdictBytes)
	if b == nil || err != nil {
		return err
	}
	var s statement
	if !s.open(c.p.cfg.Secret, roleAcceptor, d.transcript, b) {
		return errSecret
	}
	switch s.outcome {
	case admitted:
		c.dial = nil
		c.p.inner.forget(d.fd, d.key)
		c.adopt(d.fd, d.way, &s)
	case tied: // its own dial is on the way
		c.hangUp()
		c.rest(now, longestPause)
	case banned:
		if c.p.departing { // it has got our farewell, if not our knowledge of that
			c.finish()
			return nil
		}
		c.conclude(c.unless(proc.Expelled)) // it may have given up first
	case lacking:
		return fmt.Errorf("the other side cannot take a connection: %w", s.want)
	case departed:
		c.conclude(proc.Cause{Kind: proc.Departed})
	}
	return nil
}

// adopt goes on over a socket on which both sides have proved who they are.
func (c *Conn) adopt(fd int, w way, s *statement) {
	key, err := c.p.inner.add(fd, c, unix.EPOLLIN)
	if err != nil {
		_ = unix.Close(fd)
		c.broke(err)
		return
	}
	c.fd, c.key, c.way, c.outbox = fd, key, w, s.outbox
	if !w.unix && w.here.Addr() == w.there.Addr() {
		tuneLocal(fd)
	}
	returned := c.out.resume(s.taken, c.got)
	if returned < 0 {
		c.conclude(proc.Cause{Kind: proc.Corrupt})
		return
	}
	c.state, c.due, c.pause, c.refused, c.choice = up, time.Time{}, 0, 0, 0
	c.told, c.bytes = c.got, 0
	if c.met {
		c.p.stats.heals.Add(1)
		c.p.cfg.Logf("tcp: %v: connected again after %v, over %v", c.peer, time.Since(c.since).Round(time.Millisecond), w)
	} else {
		c.p.cfg.Logf("tcp: %v: over %v", c.peer, w)
	}
	c.met = true
	c.p.mended(c)
	c.p.giveBack(c, returned)
	c.flush()
	c.credit()
}
