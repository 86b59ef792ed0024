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
	// quietMax bounds how long Close waits for what only the kernel has, of peers that
	// send nothing either.
	quietMax = time.Second
	// guestMax bounds how long it waits for peers that are about to learn that this
	// process has departed.
	guestMax = 50 * time.Millisecond
)

// Depart implements fabric.Provider.
func (p *Provider) Depart() {
	if p.departing {
		return
	}
	for _, c := range p.conns {
		if c.state != over {
			h := header{kind: kindBye, taken: c.tell()}
			c.out.add(&h)
			if c.state == up {
				c.flush()
			}
		}
	}
	p.departing = true
	p.doorman = newDoorman(p)
}

// doorman answers newcomers between Depart and Close, when nobody may poll any
// more.
type doorman struct {
	epfd, stop int
	done       chan struct{}
}

// newDoorman starts it; nil if there are no descriptors for it: then Poll answers,
// if somebody calls it.
func newDoorman(p *Provider) *doorman {
	d := &doorman{done: make(chan struct{})}
	var err error
	if d.epfd, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil
	}
	if d.stop, err = unix.Eventfd(0, unix.EFD_CLOEXEC); err != nil {
		_ = unix.Close(d.epfd)
		return nil
	}
	stop := unix.EpollEvent{Events: unix.EPOLLIN, Fd: stopKey}
	lobby := unix.EpollEvent{Events: unix.EPOLLIN, Fd: lobbyKey}
	_ = unix.EpollCtl(d.epfd, unix.EPOLL_CTL_ADD, d.stop, &stop)
	_ = unix.EpollCtl(d.epfd, unix.EPOLL_CTL_ADD, p.lobby.fd, &lobby)
	go d.run(p)
	return d
}

// The keys of what the doorman waits for.
const (
	stopKey = iota
	lobbyKey
)

func (d *doorman) run(p *Provider) {
	defer close(d.done)
	events := make([]unix.EpollEvent, 2)
	for {
		n, err := unix.EpollWait(d.epfd, events, int(guestTime.Milliseconds()))
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
		p.expire(time.Now())
		p.lobbyRound()
		p.mu.Unlock()
	}
}

func (d *doorman) close() {
	one := [8]byte{1}
	_, _ = unix.Write(d.stop, one[:])
	<-d.done
	_, _ = unix.Close(d.epfd), unix.Close(d.stop)
}

// Close implements fabric.Provider. After Depart it waits until everything that
// was sent has reached the machines of its receivers, some seconds at most.
func (p *Provider) Close() error {
	if p.closed {
		return nil
	}
	if p.doorman != nil {
		p.doorman.close()
	}
	if p.departing {
		p.linger()
		p.lobbyRound() // whoever has come meanwhile
	}
	p.departing, p.closed = true, true
	for _, c := range p.conns {
		c.finish()
	}
	p.ends, p.informed, p.blocked, p.mending, p.suspects, p.recent = nil, nil, nil, nil, nil, nil
	return p.release()
}

// linger goes on until nothing that was sent is left here. What arrives is read and
// dropped: a socket that is closed with something unread takes back what the other
// side has not read.
func (p *Provider) linger() {
	var deaf fabric.Sink
	begun := time.Now()
	heard := begun
	for {
		now := time.Now()
		busy, full := p.undelivered()
		if now.Sub(begun) < guestMax && p.greeting() {
			busy = true
		}
		if !busy || now.Sub(begun) > p.cfg.Linger || full && now.Sub(heard) > quietMax {
			return
		}
		if p.poll(&deaf) > 0 {
			heard = now
			continue
		}
		var events [1]unix.EpollEvent
		_, _ = unix.EpollWait(p.inner.fd, events[:], 1)
	}
}

// greeting reports whether a peer is in the middle of its handshake.
func (p *Provider) greeting() bool {
	return slices.ContainsFunc(p.guests, func(g *guest) bool { return g.hello != nil })
}

// undelivered reports whether a connection has something that has not reached the
// other machine; full: what has not is in the kernel's hands, at least.
func (p *Provider) undelivered() (busy, full bool) {
	full = true
	for _, c := range p.conns {
		switch {
		case c.state == over || !c.out.kept():
		case c.state != up || c.out.unsent():
			busy = true
			full = full && c.state == up && c.enlarge()
		default:
			left, err := unix.IoctlGetInt(c.fd, unix.SIOCOUTQ)
			busy = busy || err != nil || left > 0
			full = full && (left == 0 || c.way.unix) // what the peer confirms resets a closed socket
		}
	}
	return busy, full
}

// enlarge has the socket take the rest of a frame from which the peer's kernel
// takes nothing for the time being.
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

// release closes what does not belong to a connection.
func (p *Provider) release() error {
	var errs []error
	if p.watch != nil {
		p.watch.close()
	}
	for _, g := range p.guests {
		_ = unix.Close(g.fd)
	}
	for _, l := range p.listeners {
		errs = append(errs, unix.Close(l.fd))
	}
	p.guests, p.listeners = nil, nil
	p.spend()
	if p.timer.fd >= 0 {
		errs = append(errs, unix.Close(p.timer.fd))
	}
	for _, in := range []*interest{p.lobby, p.inner} {
		if in != nil {
			errs = append(errs, unix.Close(in.fd))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("tcp: closing: %w", err)
	}
	return nil
}
