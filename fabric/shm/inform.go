package shm

import (
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// Inform reports that a peer has ended, as known from elsewhere. The peer is killed if it is alive,
// unless it has departed. The next Polls deliver its arrived frames, then report its end with
// that cause, unless an end was reported before. A peer that was never connected is barred: Connect
// returns fabric.ErrPeerGone, nothing from it is delivered, and if it knocks nevertheless it is
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
	case c.departedInHeader(): // the next Polls find it
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
		p.bell.Ring() // a sleeping process must poll
	}
}

// refuseDead refuses and kills a newcomer that counts as dead.
func (p *Provider) refuseDead(id proc.ID, a *address) {
	cursorsOf(p.own.page(id)).refused.Store(uint32(unix.ECONNREFUSED))
	killProcess(a)
	p.cfg.Warn("shm: %v has come, which counts as dead: refused and killed", id)
}

// killProcess kills the process with an address, if it has that segment and is not this one.
func killProcess(a *address) {
	c := Conn{reader: reader{pid: int(a.pid)}}
	fd, err := c.reader.openProcess(a.started)
	if err != nil {
		return
	}
	c.reader.handle.set(fd)
	defer c.reader.closeHandle()
	if fd, err := openBackingOf(a); err == nil {
		_ = unix.Close(fd)
		c.killPeer()
	}
}
