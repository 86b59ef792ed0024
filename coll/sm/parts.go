package sm

import (
	"fmt"

	"github.com/banyan-hpc/banyan/fabric/board"
	"github.com/banyan-hpc/banyan/ft"
)

// In the operations here each member brings a part, and reads those of all.

// Allreduce folds the froms of all members, in the order of ranks, into to, which may be the same
// memory. Done: false if the from of a member is too long, or longer than most, which all members learn. Then each waits
// for messages of all before it comes to another step.
func (s *Segment) Allreduce(o Op, from, to []byte, op func(acc, in []byte), most int) (done bool, err error) {
	if elsewhere, err := s.meet(o, from, min(most, s.Room())); elsewhere || err != nil {
		return !elsewhere, err
	}
	if s.phase.Groups() > 0 {
		return true, s.foldGroups(to, op)
	}
	return true, s.fold(to, s.Scratch(len(from)), 0, len(s.members), op)
}

// fold folds the parts of members, which are in order, into to. In is scratch memory of the same length:
// operands are aligned there, and no other process can change them.
func (s *Segment) fold(to, in []byte, first, end int, op func(acc, in []byte)) error {
	for rank := first; rank < end; rank++ {
		part, length := s.phase.Brought(rank)
		if err := s.sameBuffer(rank, length, len(to)); err != nil {
			return err
		}
		foldInto(to, in, part, rank == first, op)
	}
	return nil
}

func foldInto(to, in, part []byte, first bool, op func(acc, in []byte)) {
	if first {
		copy(to, part)
		return
	}
	copy(in, part)
	op(to, in)
}

// foldGroups is fold for all members in several groups: the first members of a group that come to it fold its parts,
// and lay the sum for the others. All begin with their own group.
func (s *Segment) foldGroups(to []byte, op func(acc, in []byte)) error {
	length, both := len(to), s.Scratch(2*s.Room())
	in, sum := both[:length], both[s.Room():][:length]
	groups, own := s.phase.Groups(), s.phase.Group()
	for i := range groups {
		group := (own + i) % groups
		if folded, ok := s.phase.Sum(group); ok && len(folded) == length {
			continue
		}
		first, end := s.phase.Members(group)
		if err := s.fold(sum, in, first, end, op); err != nil {
			return err
		}
		s.phase.LaySum(group, sum)
	}
	for group := range groups {
		folded, ok := s.phase.Sum(group)
		if !ok || len(folded) != length {
			return fmt.Errorf("%w: ranks have called with different lengths, this one with %d bytes", ft.ErrArgument, length)
		}
		foldInto(to, in, folded, group == 0, op)
	}
	return nil
}

// Allgather puts mine of all members into all, in the order of ranks. Mine may lie in all in its place.
// Done as of Allreduce.
func (s *Segment) Allgather(op Op, mine, all []byte, most int) (done bool, err error) {
	if elsewhere, err := s.meet(op, mine, min(most, s.Room())); elsewhere || err != nil {
		return !elsewhere, err
	}
	for member := range s.members {
		part, length := s.phase.Brought(member)
		if err := s.sameLength(member, length, len(mine)); err != nil {
			return true, err
		}
		copy(all[member*len(mine):], part)
	}
	return true, nil
}

// meet is Meet with a part. Elsewhere: not done.
func (s *Segment) meet(op Op, part []byte, most int) (elsewhere bool, err error) {
	done, err := s.Meet(op, len(part), most, func(place []byte) { copy(place, part) })
	return !done, err
}

// Meet enters the next step with a part of a length, which put writes, and returns when all members have entered it. Not
// done: some member came with a part that is too long, or longer than most. Whether the parts fit together is for the
// caller to check, until the next step with parts.
func (s *Segment) Meet(op Op, length, most int, put func(place []byte)) (done bool, err error) {
	s.m.e.Lock()
	defer s.m.e.Unlock()
	if s.left {
		return true, s.interrupted()
	}
	s.c.CountInParent()
	if length > most || length > s.Wide() {
		s.phase.BringElsewhere(op.Number)
		s.phase.Enter(board.Everyone)
		s.phase.End() // by the messages that follow
		s.rouse()
		return false, nil
	}
	put(s.phase.Place(op.Number, length))
	err = s.enter(op, board.Everyone)
	return err != nil || !s.phase.Apart(), err
}

// Brought gives the part that a member has brought to the last Meet, in memory of that process.
func (s *Segment) Brought(member int) []byte {
	part, _ := s.phase.Brought(member)
	return part
}

// Part is Brought of a part whose length has been checked.
func (s *Segment) Part(member, length int) []byte { return s.phase.Part(member, length) }

// Same gives an error unless all members have brought parts of a length.
func (s *Segment) Same(want int) error {
	for member := range s.members {
		if err := s.Fits(member, want); err != nil {
			return err
		}
	}
	return nil
}

// Fits gives an error unless a member has brought a part of a length.
func (s *Segment) Fits(member, want int) error {
	_, length := s.phase.Brought(member)
	return s.sameLength(member, length, want)
}

// Members is their number.
func (s *Segment) Members() int { return len(s.members) }

// Scratch is memory of a length, until the next call of any method.
func (s *Segment) Scratch(length int) []byte {
	if len(s.scratch) < length {
		s.scratch = make([]byte, max(length, 2*s.Room()))
	}
	return s.scratch[:length]
}
