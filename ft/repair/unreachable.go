package repair

import (
	"slices"

	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/p2p"
)

// Two living processes may be unable to reach each other: a descriptor is missing, or no fabric
// connects them. Without common agreements that concerns only the two. But an agreement has one
// result about each member, so one of them must count as failed for all: the one with the higher
// process id, which both can compute without a message. The lower one's contributions name it, like
// any failed process; the higher one ends itself before its own contributions could name the other.
// Otherwise each would report the other, and the remaining members would lose both.

// PeerUnreachable reports that a process, which may be alive, cannot be reached from this one. It
// is called before the agreements get the report.
//
// Precondition: the lock is held.
func (r *Repair) PeerUnreachable(peer proc.ID) {
	r.unreachable = append(r.unreachable, peer)
	for _, u := range r.open.All() {
		if u.ops > 0 {
			r.exitIfUnreachable(u.group)
		}
	}
}

// reportUnreachable reports the members as failed that operations of this process have reported to
// their callers as failed because they are unreachable: a member that a caller has seen as failed
// must not be in a shrunken communicator.
func (r *Repair) reportUnreachable(c *p2p.Comm) {
	for p, cause := range c.UnreachablePeers() {
		r.e.Report(p, cause)
	}
}

// UnreachablePeer is the first process that cannot be reached from this one, or proc.None.
func (r *Repair) UnreachablePeer() proc.ID {
	if len(r.unreachable) == 0 {
		return proc.None
	}
	return r.unreachable[0]
}

// OnUnreachable registers fn, which ends this process because of a peer that it cannot reach, with
// the lock held; and ended, which reports whether that peer is known to have ended, so that no
// process must give way.
func (r *Repair) OnUnreachable(fn func(peer proc.ID), ended func(proc.ID) bool) {
	r.exit, r.ended = fn, ended
}

// exitIfUnreachable ends this process if it cannot reach a member of a group with an agreement
// under way that has a lower id.
func (r *Repair) exitIfUnreachable(g *p2p.Group) {
	i := slices.IndexFunc(r.unreachable, func(p proc.ID) bool { return p < r.e.Self() && g.Has(p) && !r.ended(p) })
	if i >= 0 {
		r.exit(r.unreachable[i])
	}
}
