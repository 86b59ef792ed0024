package control

import (
	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/ft/detect"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// gracePart is the part of a period, or of the default one if that is shorter, for which patient frames wait if they need a new connection to
// a rank of this machine: notices of failures, and first heartbeats to new receivers.
//
// The kernel notifies such a rank of failures itself, if it ever communicated with the failed
// process. A connection costs both ranks half a millisecond of processor time which, on shared
// cores, delays the ranks that the kernel has woken. So notices go at once over existing
// connections and to other machines; the rest follows when all ranks have had time to learn of the
// failure from the kernel.
const gracePart = 20

// sameNode reports whether a process is on this machine.
func (p *Driver) sameNode(id proc.ID) bool {
	return p.node != nil && p.node(id) == p.node(p.self)
}

// postpone keeps a frame for later.
func (p *Driver) postpone(a detect.Action) {
	if len(p.postponed) == maxUnsent {
		return
	}
	if len(p.postponed) == 0 {
		p.postponedDue = p.e.Host().Now() + p.grace
	}
	p.postponed = append(p.postponed, a)
}

// sendPostponed sends the postponed frames when they are due.
func (p *Driver) sendPostponed(now fabric.Time) {
	if len(p.postponed) == 0 || now < p.postponedDue {
		return
	}
	waiting := p.postponed
	p.postponed = nil
	for _, a := range waiting {
		if !p.trySend(a) {
			p.queueUnsent(a)
		}
	}
}

// nextDue is the next time for watch to wake.
func (p *Driver) nextDue() fabric.Time {
	if len(p.postponed) > 0 {
		return min(p.m.Due(), p.postponedDue)
	}
	return p.m.Due()
}
