package repair

import (
	"slices"

	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/p2p"
)

// Two processes may be unable to reach each other although both live: for want of a descriptor, or because no fabric joins
// them. As long as they agree on nothing together that is a matter between the two. An agreement has one truth about each
// member, so one of them must count as failed for all: the one with the higher process id, which both know without a word.
// The lower one's contributions name it, as they name whoever is known to have failed; the higher one ends itself before its
// own could name the other. Else the words of both would meet, and all would lose both.

// PeerUnreachable says that a process cannot be reached from this one, and may live. It is told before the agreements are.
//
// Precondition: the lock is held.
func (r *Repair) PeerUnreachable(peer proc.ID) {
	r.unreachable = append(r.unreachable, peer)
	for _, u := range r.open {
		if u.ops > 0 {
			r.exitIfUnreachable(u.group)
		}
	}
}

// reportUnreachable has members count as failed that operations have named as failed because nobody could tell their
// addresses: what is to be agreed on is who has failed, and leaves out all of whom some caller has been told.
func (r *Repair) reportUnreachable(c *p2p.Comm) {
	for p, cause := range c.UnreachablePeers() {
		r.e.Report(p, cause)
	}
}

// UnreachablePeer gives the first of those that cannot be reached from this process; proc.None: there is none.
func (r *Repair) UnreachablePeer() proc.ID {
	if len(r.unreachable) == 0 {
		return proc.None
	}
	return r.unreachable[0]
}

// OnUnreachable registers what ends this process, when it has to for the sake of one that it cannot reach, with the lock held;
// and what tells whether a process is known to have ended since. Then there is nothing to choose.
func (r *Repair) OnUnreachable(fn func(peer proc.ID), ended func(proc.ID) bool) {
	r.exit, r.ended = fn, ended
}

// exitIfUnreachable ends this process if it cannot reach a member of a group that agrees, with a lower id.
func (r *Repair) exitIfUnreachable(g *p2p.Group) {
	i := slices.IndexFunc(r.unreachable, func(p proc.ID) bool { return p < r.e.Self() && g.Has(p) && !r.ended(p) })
	if i >= 0 {
		r.exit(r.unreachable[i])
	}
}
