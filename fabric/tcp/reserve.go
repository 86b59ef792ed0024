package tcp

import (
	"time"

	"golang.org/x/sys/unix"
)

// fillReserve opens the reserve descriptor, if there is none. With it, a peer that calls when there
// are no other descriptors is accepted until it is authenticated, and receives the shortage as the
// verdict: it would take silence for that of a busy process, and wait.
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

// useReserve gives up the reserve for a newcomer; false: there is none.
func (p *Provider) useReserve() bool {
	if p.reserve < 0 {
		return false
	}
	_ = unix.Close(p.reserve)
	p.reserve = -1
	return true
}

// ensureReserve keeps the reserve although a peer takes a descriptor: it evicts unauthenticated
// handshakes for it.
func (p *Provider) ensureReserve() error {
	err := p.fillReserve()
	for i := 0; err != nil && i < len(p.handshakes); {
		if hs := p.handshakes[i]; hs.proof == nil {
			p.stats.evicted.Add(1)
			p.drop(hs)
			err = p.fillReserve()
		} else {
			i++
		}
	}
	return err
}

// pauseAccept stops accepting for a while, or until the reserve is available.
func (p *Provider) pauseAccept(l *listener) {
	l.paused = true
	p.handshakeSet.forget(l.fd, l.key)
	p.alarm(time.Now().Add(longestPause))
}

// resumeAccept accepts connections again.
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
