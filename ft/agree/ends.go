package agree

import "github.com/banyan-hpc/banyan/internal/proc"

// ended handles the end of a process.
func (l *sequence) ended(p proc.ID) {
	rank := l.group.Rank(p)
	if rank < 0 {
		return
	}
	was := [2]int{-2, -2}
	for k, i := range []*instance{l.old, l.cur} {
		if i != nil && !i.excluded.has(rank) {
			t := i.tree()
			was[k] = t.parent(l.rank)
		}
	}
	l.known.add(rank)
	for k, i := range []*instance{l.old, l.cur} {
		if was[k] == -2 || l.m.open[l.key] != l {
			continue
		}
		switch {
		case i.flat:
			if l.m.broken != openCells {
				l.flat.Seal(rank, i.seq)
				l.resume()
			} else {
				l.leave(i)
				i.advance()
			}
			continue
		case !i.decided:
			i.advance()
		default:
			i.resendDecision(was[k])
		}
		if i.boarded && l.flat.Board != nil {
			l.rouse(i)
		}
	}
	l.retryHeld()
}

// resendDecision sends a decision to the members that an end has made parent or child of this
// process; parent is the one before.
func (i *instance) resendDecision(parent int) {
	if i.s.m.broken == muteOwners {
		return
	}
	t := i.tree()
	if now := t.parent(i.s.rank); now >= 0 && now != parent {
		i.sendDecision(now)
	}
	for _, child := range i.children(&t) {
		i.sendDecision(child)
	}
}
