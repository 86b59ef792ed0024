package sm

import (
	"fmt"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/board"
	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/internal/progress"
	"github.com/banyan-hpc/banyan/p2p"
)

// Segment is a rank's use of memory that it shares with all ranks of a communicator of collectives, or with
// those on its node.
type Segment struct {
	m        *Memory
	c        *p2p.Comm
	memory   *board.Segment
	phase    board.Phase
	members  []int                // by place in the segment: the rank
	me       int                  // this rank's place
	whole    bool                 // all ranks are members
	name     uint64               // of the memory, if it is this process's
	around   []*progress.Endpoint // the members that this one wakes
	near     []int                // their places
	leader   *progress.Endpoint   // the member with place 0
	scratch  []byte               // to fold in
	using    bool                 // an operation is under way
	op       Op                   // it, once it waits
	left     bool
	err      error
	asked    int             // the place of the member that answer is of; -1: none
	answer   p2p.Handle      // see interrupted
	stranger int             // the place of a member to connect to before it can be asked; -1: none
	again    *progress.Timer // for the next look at a wait that is in doubt; nil: none
	pause    fabric.Time     // until that
	done     progress.Completion
	watcher  progress.Watcher
}

// spins is how many looks at a segment pass before other things are looked at, where each process has a
// core.
const spins = 512

// Op is an operation.
type Op struct {
	Number uint8 // from 1 to 31, by which members tell the operations of others from their own
	Name   string
}

// Barrier returns when all members have called it. Done is always true.
func (s *Segment) Barrier(op Op) (done bool, err error) {
	s.m.e.Lock()
	defer s.m.e.Unlock()
	if s.left {
		return true, s.interrupted()
	}
	s.c.CountInParent()
	s.phase.Come(op.Number)
	return true, s.enter(op, board.Everyone)
}

// Bcast copies the root's buf into that of each member. Done: false if that is too long, or longer than most, at all
// members.
func (s *Segment) Bcast(op Op, buf []byte, root, most int) (done bool, err error) {
	s.m.e.Lock()
	defer s.m.e.Unlock()
	if s.left {
		return true, s.interrupted()
	}
	s.c.CountInParent()
	if s.me == root {
		if len(buf) <= most {
			s.phase.Lay(buf)
		} else {
			s.phase.LayElsewhere()
		}
	}
	laid, length, err := s.spread(op, root)
	switch {
	case err != nil:
		return true, err
	case length == board.Elsewhere:
		return false, nil
	case s.me == root:
		return true, nil
	}
	copy(buf, laid)
	return true, s.sameLength(root, length, len(buf))
}

// Skip is the step of a Bcast of a rank that has no root to name. It waits for the first member, which most name.
func (s *Segment) Skip(op Op) error {
	s.m.e.Lock()
	defer s.m.e.Unlock()
	if s.left {
		return s.interrupted()
	}
	return s.enter(op, s.phase.From(0))
}

// spread enters the next step, in which a member lays a payload for all, and gives it: until
// the next step; see board.Segment.Laid.
func (s *Segment) spread(op Op, root int) (laid []byte, length int, err error) {
	if err = s.enter(op, s.phase.From(root)); err != nil {
		return nil, 0, err
	}
	laid, length, ok := s.phase.Laid(root) // at the root too: another rank may have laid a payload there
	if !ok {
		return nil, 0, fmt.Errorf("%w: rank %d has called another collective or named another root: all ranks must call the same "+
			"ones, in the same order", ft.ErrArgument, s.originalRank(root))
	}
	return laid, length, nil
}

// sameLength checks the length that a member has brought.
func (s *Segment) sameLength(member, length, want int) error {
	switch length {
	case want:
		return nil
	case board.NoPart:
		return s.otherCall(member)
	}
	return fmt.Errorf("%w: rank %d came with %d bytes, want %d: all ranks must call with the same length",
		ft.ErrArgument, s.originalRank(member), length, want)
}

// otherCall is the error of a member that has come for another operation.
func (s *Segment) otherCall(member int) error {
	return fmt.Errorf("%w: rank %d has called another collective: all ranks must call the same ones, in the same order",
		ft.ErrArgument, s.originalRank(member))
}

// originalRank is the rank of a member in errors.
func (s *Segment) originalRank(member int) int { return s.c.OriginalRank(s.members[member]) }

// enter enters the next step and waits until a member has, or everyone. Precondition: the lock is held.
func (s *Segment) enter(op Op, from int) error {
	s.phase.Enter(from)
	s.using = true
	if !s.soon() {
		s.op = op
		s.wait()
	}
	s.using = false
	s.unask()
	s.endLooks()
	err := s.err
	if s.err = nil; err == nil {
		s.phase.End()
	} else {
		s.c.GiveUpLocked()
	}
	s.rouse()
	if s.c.Disturbed() {
		s.c.Attach(s) // it leaves if the communicator was freed meanwhile
	}
	if other := s.phase.Other(); other >= 0 && err == nil {
		err = s.otherCall(other)
	}
	return err
}

// wait waits until those that have to come have, or the wait has no end.
func (s *Segment) wait() {
	for s.stranger = -1; ; s.stranger = -1 {
		s.done.Reset()
		s.m.e.Watch(&s.watcher)
		s.m.e.Wait(&s.done)
		s.m.e.Unwatch(&s.watcher)
		if s.stranger < 0 {
			return
		}
		s.m.e.Unlock()
		err := s.c.Connect(s.members[s.stranger]) // may wait
		s.m.e.Lock()
		if err != nil && !s.phase.Here() {
			s.err = err
			return
		}
	}
}

// patientSteps is one step of how many waits in the progress loop at once where processes share cores,
// so that messages and timers have their turn.
const patientSteps = 8

// soon reports whether the members that have to come have, or come while nothing else is looked at: for
// some microseconds where the process has a core, and else within one turn of the other processes,
// after which all have come that come as fast as they can. The less memory is touched in a turn the
// shorter it is, as the cache holds another process's by then.
func (s *Segment) soon() bool {
	e := s.m.e
	if s.phase.Here() {
		return true
	}
	if e.Spins() == 0 {
		return s.phase.Step()%patientSteps != 0 && e.YieldProcess() && s.phase.Here()
	}
	for range min(e.Spins(), spins) {
		if s.phase.Here() {
			return true
		}
		if e.Contended() {
			break
		}
	}
	return false
}

// look implements progress.Watcher. A step that was seen to be complete stays so, also after later events.
func (s *Segment) look() int {
	switch {
	case s.done.Done():
		return 0
	case s.phase.Here():
	case !s.c.Disturbed():
		return 0
	default:
		if s.err = s.interrupted(); s.err == nil {
			return 0
		}
	}
	s.done.Finish()
	return 1
}

// doze implements progress.Watcher.
func (s *Segment) doze() bool {
	if s.done.Done() {
		return false
	}
	s.phase.Nap()
	switch saw, member := s.phase.Doze(); saw {
	case board.Nothing:
		return true
	case board.Missing:
		s.err = fmt.Errorf("rank %d: %w", s.originalRank(member), ft.ErrDeparted)
		s.done.Finish()
	case board.Apart:
		s.done.Finish()
	}
	return false
}

// waiting describes the operation that waits, for progress.Watcher.
func (s *Segment) waiting() (string, *progress.Completion) {
	return fmt.Sprintf("%s on %s, waiting for rank %d", s.op.Name, s.c.Name(), s.originalRank(s.phase.Awaited())), &s.done
}

// interrupted is the error of a wait that has no end, or nil. Where members wait for each other only, one that has
// failed has not completed the operation, or all have come. On a node among others they also wait for messages of other
// nodes, which may still come; so the member that is awaited is asked whether it has given up.
func (s *Segment) interrupted() error {
	if s.whole || s.left {
		return s.c.Interrupted(s.using)
	}
	doubt, err := s.c.InDoubt(s.using)
	if !doubt {
		return err
	}
	if member := s.phase.Awaited(); member != s.asked {
		s.unask()
		answer, connected := s.c.Ask(s.members[member])
		if !connected {
			s.stranger = member
			s.done.Finish()
			return nil
		}
		s.asked, s.answer = member, answer
	}
	s.lookAgain()
	return s.c.Engine().Answer(s.answer)
}

// The pauses between looks, which double.
const (
	firstPause fabric.Time = 1_000_000
	lastPause  fabric.Time = 64_000_000
)

// lookAgain has the memory looked at after a while, since the member that would wake this one may have failed.
func (s *Segment) lookAgain() {
	if s.again == nil {
		s.pause = min(max(2*s.pause, firstPause), lastPause)
		s.again = s.m.e.After(s.pause, func() { s.again = nil })
	}
}

func (s *Segment) endLooks() {
	if s.pause = 0; s.again != nil {
		s.m.e.Stop(s.again)
		s.again = nil
	}
}

// unask ends the question that is open.
func (s *Segment) unask() {
	if s.asked >= 0 {
		s.asked = -1
		if e := s.c.Engine(); !e.Abandon(s.answer) {
			_ = e.Answer(s.answer) // it came after the end, or has been given
		}
	}
}

// rouse wakes the neighbours that sleep in the step that this rank has seen to its end: they see the
// end, and wake theirs.
func (s *Segment) rouse() {
	for i, member := range s.near {
		if s.phase.Naps(member) {
			s.around[i].TrySend(fabric.ClassColl, 0, nil) // without credit: it has something to read, so it does not sleep
		}
	}
}

// Leave implements p2p.Segment: at once, or at the end of the collective that is under way.
func (s *Segment) Leave(departs bool) {
	switch {
	case s.left:
		return
	case s.using && departs:
		s.memory.Depart(s.me) // before the process announces that it departs
		return
	case s.using:
		return
	}
	s.left = true
	s.memory.Leave(s.me, departs)
	if s.name != 0 {
		s.m.segments.DropSegment(s.name)
	}
}
