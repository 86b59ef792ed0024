package control

import (
	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/ft/detect"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// gracePart is the part of a period for which news of a death, and greetings to new receivers of
// heartbeats, wait that would take a connection to a rank of this machine.
//
// Such a rank the kernel tells itself who has ended, if it has ever talked to the dead.
// To connect to it costs both of the pair half a millisecond of processor, and where ranks share
// cores that is taken from those which the kernel has woken and which have not run yet. So
// news goes at once over the connections that there are, and to other machines; the
// rest goes when everybody has had time to hear it from the kernel.
const gracePart = 20

// sameNode reports whether a process is on this machine.
func (p *Driver) sameNode(id proc.ID) bool {
	return p.node != nil && p.node(id) == p.node(p.self)
}

// postpone puts a frame aside for a while.
func (p *Driver) postpone(a detect.Action) {
	if len(p.postponed) == maxUnsent {
		return
	}
	if len(p.postponed) == 0 {
		p.postponedDue = p.e.Host().Now() + p.grace
	}
	p.postponed = append(p.postponed, a)
}

// sendPostponed sends what was put aside, when its time has come.
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

// nextDue is when watch is to look at the time again.
func (p *Driver) nextDue() fabric.Time {
	if len(p.postponed) > 0 {
		return min(p.m.Due(), p.postponedDue)
	}
	return p.m.Due()
}
