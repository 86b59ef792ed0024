package agree

import "github.com/banyan-hpc/banyan/internal/proc"

// left says that a member is gone.
func (l *line) left(p proc.ID) {
	rank := l.group.Rank(p)
	if rank < 0 {
		return
	}
	was := [2]int{-2, -2}
	for k, i := range []*instance{l.old, l.cur} {
		if i != nil && !i.base.has(rank) {
			t := i.tree()
			was[k] = t.parent(l.rank)
		}
	}
	l.gone.add(rank)
	for k, i := range []*instance{l.old, l.cur} {
		if was[k] == -2 || l.m.lines[l.id] != l {
			continue
		}
		switch {
		case i.flat:
			if l.m.broken != unsealed {
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
			i.remind(was[k])
		}
		if i.boarded && l.flat.Board != nil {
			l.rouse(i)
		}
	}
	l.again()
}

// remind sends a decision to whom a death has made parent or child of this process.
func (i *instance) remind(parent int) {
	if i.l.m.broken == muteOwners {
		return
	}
	t := i.tree()
	if now := t.parent(i.l.rank); now >= 0 && now != parent {
		i.tell(now)
	}
	for _, child := range i.children(&t) {
		i.tell(child)
	}
}
