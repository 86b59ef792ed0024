package tcp

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/fabric"
)

const (
	// silentLinger bounds how long Close waits for data that only the kernel holds, of peers that
	// send nothing either.
	silentLinger = time.Second
	// handshakeLinger bounds how long it waits for peers that are about to learn that this process
	// has departed.
	handshakeLinger = 50 * time.Millisecond
)

// Depart implements fabric.Provider.
func (p *Provider) Depart() {
	if p.departing {
		return
	}
	p.endBurst()
	for _, c := range p.conns {
		if c.state != ended {
			h := header{kind: kindBye, taken: c.ack(), imm: c.farewell}
			c.add(&h, 0)
			if c.state == up {
				c.flush()
			}
		}
	}
	p.departing = true
	p.acceptor = newAcceptor(p)
}

// acceptor answers newcomers between Depart and Close, when the process may no longer poll.
type acceptor struct {
	epfd, stop int
	done       chan struct{}
}

// newAcceptor starts it; nil if there are no descriptors for it: then Poll answers, if it is
// called.
func newAcceptor(p *Provider) *acceptor {
	d := &acceptor{done: make(chan struct{})}
	var err error
	if d.epfd, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil
	}
	if d.stop, err = unix.Eventfd(0, unix.EFD_CLOEXEC); err != nil {
		_ = unix.Close(d.epfd)
		return nil
	}
	stop := unix.EpollEvent{Events: unix.EPOLLIN, Fd: stopKey}
	accept := unix.EpollEvent{Events: unix.EPOLLIN, Fd: handshakeKey}
	_ = unix.EpollCtl(d.epfd, unix.EPOLL_CTL_ADD, d.stop, &stop)
	_ = unix.EpollCtl(d.epfd, unix.EPOLL_CTL_ADD, p.handshakeSet.fd, &accept)
	go d.run(p)
	return d
}

// The keys of the acceptor's epoll set.
const (
	stopKey = iota
	handshakeKey
)

func (d *acceptor) run(p *Provider) {
	defer close(d.done)
	events := make([]unix.EpollEvent, 2)
	for {
		n, err := unix.EpollWait(d.epfd, events, int(handshakeTimeout.Milliseconds()))
		if err != nil && !errors.Is(err, unix.EINTR) {
			p.cfg.Warn("tcp: newcomers are not answered while this process leaves: %v", err)
			return
		}
		for _, ev := range events[:max(n, 0)] {
			if ev.Fd == stopKey {
				return
			}
		}
		p.mu.Lock()
		p.expireHandshakes(time.Now())
		p.acceptRound()
		p.mu.Unlock()
	}
}

func (d *acceptor) close() {
	one := [8]byte{1}
	_, _ = unix.Write(d.stop, one[:])
	<-d.done
	_, _ = unix.Close(d.epfd), unix.Close(d.stop)
}

// Close implements fabric.Provider. After Depart it waits until everything that was sent has
// reached the machines of its receivers, some seconds at most.
func (p *Provider) Close() error {
	if p.closed {
		return nil
	}
	if p.acceptor != nil {
		p.acceptor.close()
	}
	if p.departing {
		p.linger()
		p.acceptRound() // newcomers of the meantime
	}
	p.endBurst()
	p.departing, p.closed = true, true
	for _, c := range p.conns {
		c.finish()
	}
	p.ends, p.informed, p.blocked, p.reconnecting, p.suspects, p.recent = nil, nil, nil, nil, nil, nil
	return p.release()
}

// linger polls until all sent data have left this process. It reads and drops incoming data: a
// socket that is closed with unread data discards data that the other side has not read.
func (p *Provider) linger() {
	var deaf fabric.Sink
	start := time.Now()
	heard := start
	for {
		now := time.Now()
		busy, full := p.unacknowledged()
		if now.Sub(start) < handshakeLinger && p.helloPending() {
			busy = true
		}
		if !busy || now.Sub(start) > p.cfg.Linger || full && now.Sub(heard) > silentLinger {
			return
		}
		if p.poll(&deaf) > 0 {
			heard = now
			continue
		}
		var events [1]unix.EpollEvent
		_, _ = unix.EpollWait(p.connSet.fd, events[:], 1)
	}
}

// helloPending reports whether a peer is in the middle of its handshake.
func (p *Provider) helloPending() bool {
	return slices.ContainsFunc(p.handshakes, func(hs *handshake) bool { return hs.hello != nil })
}

// unacknowledged reports whether a connection has data that have not reached the other machine;
// full: such data are at least in the kernel.
func (p *Provider) unacknowledged() (busy, full bool) {
	full = true
	for _, c := range p.conns {
		switch {
		case c.state == ended || !c.out.kept():
		case c.state != up || c.out.unsent():
			busy = true
			full = full && c.state == up && c.enlarge()
		default:
			left, err := unix.IoctlGetInt(c.fd, unix.SIOCOUTQ)
			busy = busy || err != nil || left > 0
			full = full && (left == 0 || c.path.unix) // the peer's acknowledgement resets a closed socket
		}
	}
	return busy, full
}

// enlarge makes the socket take the rest of a frame while the peer's kernel takes nothing.
func (c *Conn) enlarge() bool {
	size, err := unix.GetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_SNDBUF)
	if err != nil {
		return false
	}
	if unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, size+2*maxFrame) != nil {
		_ = unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_SNDBUF, size+2*maxFrame)
	}
	c.flush()
	return !c.out.unsent()
}

// release closes everything that does not belong to a connection.
func (p *Provider) release() error {
	var errs []error
	if p.flush != nil {
		p.flush.Close()
	}
	if p.watch != nil {
		p.watch.close()
	}
	for _, hs := range p.handshakes {
		_ = unix.Close(hs.fd)
	}
	for _, l := range p.listeners {
		errs = append(errs, unix.Close(l.fd))
	}
	p.handshakes, p.listeners = nil, nil
	p.useReserve()
	if p.timer.fd >= 0 {
		errs = append(errs, unix.Close(p.timer.fd))
	}
	for _, in := range []*epollSet{p.handshakeSet, p.connSet} {
		if in != nil {
			errs = append(errs, unix.Close(in.fd))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("tcp: closing: %w", err)
	}
	return nil
}
