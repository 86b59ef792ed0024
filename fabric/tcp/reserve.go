package tcp

import (
	"time"

	"golang.org/x/sys/unix"
)

// stock puts a descriptor by, if none is. With this reserve a peer that calls when
// there are no others is let in as far as to prove who it is, and to be told what this
// process lacks: silence it would take for that of one that computes, and wait.
func (p *Provider) stock() error {
	if p.reserve >= 0 {
		return nil
	}
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return err
	}
	p.reserve = fd
	p.hearken(time.Now())
	return nil
}

// spend gives the reserve up for a newcomer; false: it is not there.
func (p *Provider) spend() bool {
	if p.reserve < 0 {
		return false
	}
	_ = unix.Close(p.reserve)
	p.reserve = -1
	return true
}

// afford sees to it that the reserve is there though a peer takes a descriptor. Who
// has proved nothing yet has to go for that.
func (p *Provider) afford() error {
	err := p.stock()
	for i := 0; err != nil && i < len(p.guests); {
		if g := p.guests[i]; g.proof == nil {
			p.stats.crowded.Add(1)
			p.dismiss(g)
			err = p.stock()
		} else {
			i++
		}
	}
	return err
}

// deafen stops to take connections for a while, or until the reserve is there.
func (p *Provider) deafen(l *listener) {
	l.deaf = true
	p.lobby.forget(l.fd, l.key)
	p.alarm(time.Now().Add(longestPause))
}

// hearken takes connections again.
func (p *Provider) hearken(now time.Time) {
	for _, l := range p.listeners {
		if !l.deaf {
			continue
		}
		key, err := p.lobby.add(l.fd, l, unix.EPOLLIN)
		if l.deaf = err != nil; l.deaf {
			p.alarm(now.Add(longestPause))
		}
		l.key = key
	}
}
