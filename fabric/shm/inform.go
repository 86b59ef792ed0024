package shm

import (
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// Inform tells that a peer has ended, as is known from elsewhere. It is fenced: if it
// lives after all, it is killed, unless it has departed. What has arrived from it is delivered by the next
// Polls, then its end is reported with that cause, if no end was reported
// before. A peer that was never connected is barred: Connect answers
// fabric.ErrPeerGone, nothing from it is delivered, and if it comes all the same it is
// killed. It is called like Poll.
func (p *Provider) Inform(peer proc.ID, cause proc.Cause) {
	if p.closed || int64(peer) >= int64(p.cfg.MaxProcs) || peer == p.cfg.Self {
		return
	}
	c := p.conns[peer]
	if c == nil && !p.departed {
		p.acceptKnocks() // it may have knocked
		c = p.conns[peer]
	}
	switch {
	case c == nil:
		p.barred[peer] = fabric.ErrPeerGone
	case c.reported || c.ending || c.gone.Load():
	case c.departedInHeader(): // which the next Polls find
	default:
		if c.halfOpen != nil {
			c.in.cur.refused.Store(uint32(unix.ECONNREFUSED))
			killProcess(c.halfOpen)
		}
		switch {
		case cause.Kind == proc.Heartbeat:
			cause = c.killSilentPeer()
		case cause.Failed():
			c.killPeer()
		}
		c.setEnd(cause)
		p.bell.Ring() // who sleeps is to poll
	}
}

// refuseDead refuses a newcomer that counts as dead: it is to be so.
func (p *Provider) refuseDead(id proc.ID, a *address) {
	entry := newRing(p.own.slot(id), p.own.geometry)
	entry.cur.refused.Store(uint32(unix.ECONNREFUSED))
	killProcess(a)
	p.cfg.Warn("shm: %v has come, which counts as dead: refused and killed", id)
}

// killProcess kills the process with an address, if there is one with that
// segment, and it is not this one.
func killProcess(a *address) {
	c := Conn{reader: reader{pid: int(a.pid), pidfd: -1}}
	if c.openProcess(a) != nil {
		return
	}
	if fd, err := findBacking(a); err == nil {
		_ = unix.Close(fd)
		c.killPeer()
	}
	_ = unix.Close(c.reader.pidfd)
}
