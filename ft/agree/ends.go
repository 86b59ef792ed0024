package agree

import "github.com/banyan-hpc/banyan/internal/proc"

// ended handles the end of a process.
func (s *sequence) ended(p proc.ID) {
	rank := s.group.Rank(p)
	if rank < 0 {
		return
	}
	was := [2]int{-2, -2}
	for k, i := range []*instance{s.old, s.cur} {
		if i != nil && !i.excluded.has(rank) {
			t := i.tree()
			was[k] = t.parent(s.rank)
		}
	}
	s.known.add(rank)
	for k, i := range []*instance{s.old, s.cur} {
		if was[k] == -2 || s.m.open[s.key] != s {
			continue
		}
		switch {
		case i.atBallot:
			if s.m.broken != openCells {
				s.ballot.Close(rank, i.seq)
				s.tryDecide()
			} else {
				s.leaveBallot(i)
				i.advance()
			}
			continue
		case !i.decided:
			i.advance()
		default:
			i.resendDecision(was[k])
		}
		if i.hadBallot && s.ballot.Ballot != nil {
			s.wakeNeighbours(i)
		}
	}
	s.retryHeld()
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
