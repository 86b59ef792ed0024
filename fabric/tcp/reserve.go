package tcp

import (
	"time"

	"golang.org/x/sys/unix"
)

// fillReserve puts a descriptor by, if none is. With this reserve a peer that calls when
// there are no others is let in as far as to prove who it is, and to be told what this
// process lacks: silence it would take for that of one that computes, and wait.
func (p *Provider) fillReserve() error {
	if p.reserve >= 0 {
		return nil
	}
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return err
	}
	p.reserve = fd
	p.resumeAccept(time.Now())
	return nil
}

// useReserve gives the reserve up for a newcomer; false: it is not there.
func (p *Provider) useReserve() bool {
	if p.reserve < 0 {
		return false
	}
	_ = unix.Close(p.reserve)
	p.reserve = -1
	return true
}

// ensureReserve sees to it that the reserve is there though a peer takes a descriptor. Who
// has proved nothing yet has to go for that.
func (p *Provider) ensureReserve() error {
	err := p.fillReserve()
	for i := 0; err != nil && i < len(p.handshakes); {
		if g := p.handshakes[i]; g.proof == nil {
			p.stats.evicted.Add(1)
			p.drop(g)
			err = p.fillReserve()
		} else {
			i++
		}
	}
	return err
}

// pauseAccept stops to take connections for a while, or until the reserve is there.
func (p *Provider) pauseAccept(l *listener) {
	l.paused = true
	p.handshakeSet.forget(l.fd, l.key)
	p.alarm(time.Now().Add(longestPause))
}

// resumeAccept takes connections again.
func (p *Provider) resumeAccept(now time.Time) {
	for _, l := range p.listeners {
		if !l.paused {
			continue
		}
		key, err := p.handshakeSet.add(l.fd, l, unix.EPOLLIN)
		if l.paused = err != nil; l.paused {
			p.alarm(now.Add(longestPause))
		}
		l.key = key
	}
}
