package sm

import (
	"fmt"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/board"
	"github.com/banyan-hpc/banyan/ft"
)

// The methods here are those of a segment of one node among several. The members bring their parts to the first of
// them, the leader, and it lays the result for all; between the two the leaders of the nodes exchange
// messages. A longer result comes in several payloads. A broadcast is the second half alone, and any member may lay the
// payload. All members call the same methods, each in its role.

// MaxLaid is the longest payload that a member lays, in bytes. A longer one goes another way.
const MaxLaid = board.MaxLaid

// Room is the longest part of a member that all others read where so many share a node, in bytes.
func Room(members int) int { return board.Room(members) }

// Wide is the longest part of a member where so many share a node and each reads a block of it, in bytes.
func Wide(members int) int { return board.Wide(members) }

// Room is that of a segment.
func (s *Segment) Room() int { return board.Room(len(s.members)) }

// Wide is that of a segment.
func (s *Segment) Wide() int { return board.Wide(len(s.members)) }

// HeaderLen is the length, in bytes, of a part of an allreduce that stands for a longer buffer. No buffer of that length
// is a part.
const HeaderLen = 61

// sameBuffer is sameLength of an allreduce.
func (s *Segment) sameBuffer(member, length, want int) error {
	if length == board.NoPart || (length == HeaderLen) == (want == HeaderLen) {
		return s.sameLength(member, length, want)
	}
	return fmt.Errorf("%w: rank %d or this one has more bytes than shared memory has room for, but not both: "+
		"all ranks must call with the same length", ft.ErrArgument, s.originalRank(member))
}

// Leads reports whether this rank is the leader.
func (s *Segment) Leads() bool { return s.me == 0 }

// Bring brings a part to the leader, and does not wait. Take follows.
func (s *Segment) Bring(op Op, part []byte) error {
	s.m.e.Lock()
	defer s.m.e.Unlock()
	if s.left {
		return s.interrupted()
	}
	s.phase.Bring(op.Number, part)
	s.phase.Enter(s.me)
	if s.phase.Naps(0) && s.phase.Last() {
		s.leader.TrySend(fabric.ClassColl, 0, nil)
	}
	return nil
}

// Collect is the leader's Bring. It waits until all members have come, and folds their parts, in order, into to, which
// has its own. Without a fold they lie there one after the other. Lengths that do not fit are ft.ErrArgument. Hand
// follows.
func (s *Segment) Collect(op Op, to []byte, fold func(acc, in []byte)) error {
	if err := s.gather(op); err != nil {
		return err
	}
	want := len(to)
	if fold == nil {
		want /= len(s.members)
	}
	for member := 1; member < len(s.members); member++ {
		part, length := s.phase.Brought(member)
		if err := s.sameLength(member, length, want); err != nil {
			return err
		}
		switch {
		case fold == nil:
			copy(to[member*want:], part)
		case length > 0:
			foldInto(to, s.Scratch(length), part, false, fold)
		}
	}
	return nil
}

// gather waits until all members have come to the next step.
func (s *Segment) gather(op Op) error {
	s.m.e.Lock()
	defer s.m.e.Unlock()
	if s.left {
		return s.interrupted()
	}
	s.phase.Collect(op.Number)
	return s.enter(op, board.Everyone)
}

// Hand lays a payload for all members. Whole is false where it goes another way.
func (s *Segment) Hand(op Op, payload []byte, whole bool) error {
	s.m.e.Lock()
	defer s.m.e.Unlock()
	if s.left {
		return s.interrupted()
	}
	if whole {
		s.phase.Lay(payload)
	} else {
		s.phase.LayElsewhere()
	}
	_, _, err := s.spread(op, s.me)
	return err
}

// Take waits for the payload of a member, and gives it until the next call; not whole: it goes another way.
func (s *Segment) Take(op Op, from int) (payload []byte, whole bool, err error) {
	s.m.e.Lock()
	defer s.m.e.Unlock()
	if s.left {
		return nil, false, s.interrupted()
	}
	laid, length, err := s.spread(op, from)
	if err == nil {
		s.phase.Follow()
	}
	return laid, length != board.Elsewhere, err
}
