package agree

import (
	"slices"

	"github.com/banyan-hpc/banyan/fabric/board"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// If all members of a group share memory, an agreement without failures sends no messages. Each
// member posts its proposal in its cell of a ballot; a member that sees the proposals of all has
// the decision. All members see the same at any time, even if some have failed meanwhile, so the
// agreement is uniform.
//
// The agreement goes back to messages, at all members alike, if a cell is closed: its member has no
// proposal that fits, knows of an end that has not been agreed on, or has an unacknowledged
// failure; or another member counts it as ended and has closed the cell before it could post. The
// same holds if the proposals differ. A cell does not change any more, so no member can have
// decided from the ballot then.
//
// A decision that was reached by messages names the ballot: contributions report whether all members
// below can use the memory of the root, and the root makes a ballot there if all can.

// MaxBallot is the largest group that uses a ballot: each member reads the cells of all.
const MaxBallot = 512

// Ballots is the shared memory of ballots, as the machine needs it.
type Ballots interface {
	// Reach reports whether this process can open the ballots of another one, now and for its own
	// lifetime. The machine asks again later if not.
	Reach(owner proc.ID) bool
	// Make makes a ballot in this process's memory for so many members, whose next step is given,
	// and names it; false: it cannot be made.
	Make(members int, next uint32) (name uint64, ok bool)
	// Open returns the ballot with a name, or nil if no process can have made it. Precondition:
	// Reach(owner), or the owner is this process.
	Open(owner proc.ID, name uint64, members int) *board.Ballot
	// Drop releases a ballot that this process has made.
	Drop(name uint64)
}

// Use enables ballots. It is called before the first group is opened, at all processes of a job or
// at none.
func (m *Machine) Use(b Ballots) { m.ballots = b }

// openBallot is a sequence's ballot.
type openBallot struct {
	*board.Ballot
	name uint64
	from proc.ID // the owner of the memory
	// voters are the ranks that have not been agreed to have ended. near are those of them that
	// this process wakes and that wake it, if no other member has ended; see findVoters.
	voters []int32
	near   []int
	// sections are the voters by section of the ballot, this process's first. So many sections, and then so
	// many voters of the next one, are known to have posted.
	sections []section
	posted   int
	next     int
}

// section is a part of the voters, whose parts one of them sums up for the others.
type section struct {
	number int
	voters []int32
}

// partHead is the length of a posted part without its value: a kind and flags.
const partHead = 2

// offersBallot reports whether this process can use a ballot of the root in the tree of members
// that have not been agreed to have ended.
func (s *sequence) offersBallot() bool {
	if s.m.ballots == nil || s.ballot.Ballot != nil || len(s.known) > len(s.agreed) || s.group.Size() > MaxBallot {
		return false
	}
	if t := s.cur.tree(); t.places != nil {
		return false // the nodes share no memory
	}
	owner := s.owner()
	if owner == s.m.self || s.m.ballots.Reach(owner) {
		return true
	}
	if s.connectAsked != owner+1 { // once for each root
		s.connectAsked = owner + 1
		a := s.m.emit(Await)
		a.Peer, a.Connect = owner, true
	}
	return false
}

// owner is the process at the root of the tree without further ends.
func (s *sequence) owner() proc.ID {
	t := tree{size: s.group.Size(), agreed: s.agreed, known: s.agreed} // on several nodes it has the same root
	return s.group.Proc(t.rank(0))
}

// makeBallot makes a ballot at the root when it decides, if all members can use it.
func (i *instance) makeBallot() {
	l := i.s
	if i.gathered.flags&flagBallot == 0 {
		return
	}
	ok := len(i.gathered.ended) == 0 && l.owner() == l.m.self
	if ok {
		i.gathered.ballot, ok = l.m.ballots.Make(l.group.Size(), i.seq+1)
	}
	if !ok || !l.openBallot(&i.gathered) {
		i.gathered.flags &^= flagBallot
	}
}

// openBallot opens the ballot that a decision names; false: the name is invalid. Precondition:
// agreed is as it was during the agreement.
func (s *sequence) openBallot(f *frame) bool {
	owner := s.owner()
	if s.m.ballots == nil || s.ballot.Ballot != nil || s.group.Size() > MaxBallot {
		return false
	}
	if owner != s.m.self && !s.m.ballots.Reach(owner) {
		return false
	}
	b := s.m.ballots.Open(owner, f.ballot, s.group.Size())
	if b == nil {
		return false
	}
	s.ballot = openBallot{Ballot: b, name: f.ballot, from: owner}
	return true
}

// treeNeighbours lists the neighbours in the tree, which this process wakes and which wake it.
func (s *sequence) treeNeighbours(i *instance) []int {
	t := i.tree()
	out := i.children(&t)
	if parent := t.parent(s.rank); parent >= 0 {
		out = append(out, parent)
		s.below = out
	}
	return out
}

// post posts this process's proposal in the ballot, and reports whether it takes part there.
// Precondition: the agreement has just been entered.
func (s *sequence) post(i *instance) bool {
	if s.ballot.Ballot == nil {
		return false
	}
	i.hadBallot = true
	var b [board.MaxPart]byte
	part, ok := i.part(b[:0])
	if !ok || len(s.known) > len(s.agreed) {
		s.ballot.Close(s.rank, i.seq)
	} else if s.ballot.Post(s.rank, i.seq, part) == board.Posted {
		i.atBallot, s.ballot.posted, s.ballot.next = true, 0, 0
		s.m.atBallots = append(s.m.atBallots, s)
		return true
	}
	s.wakeNeighbours(i) // sleeping members must go on by messages
	return false
}

// findVoters finds the members that take part in the next agreements at the ballot.
func (s *sequence) findVoters() {
	f := &s.ballot
	f.voters, f.near = make([]int32, 0, s.group.Size()-len(s.agreed)), slices.Clone(s.treeNeighbours(s.cur))
	for rank := range s.group.Size() {
		if !s.agreed.has(rank) {
			f.voters = append(f.voters, int32(rank))
		}
	}
	f.split(s.rank)
}

// split finds the sections of the voters, that of a rank first.
func (f *openBallot) split(rank int) {
	f.sections = nil
	for at, voter := range f.voters {
		number := f.Section(int(voter))
		if last := len(f.sections) - 1; last < 0 || f.sections[last].number != number {
			f.sections = append(f.sections, section{number, f.voters[at:at]})
		}
		last := &f.sections[len(f.sections)-1]
		last.voters = last.voters[:len(last.voters)+1]
	}
	own := slices.IndexFunc(f.sections, func(x section) bool { return x.number == f.Section(rank) })
	if own < 0 {
		return // it counts as ended
	}
	f.sections = slices.Concat(f.sections[own:], f.sections[:own])
}

// part appends the part that this process posts; false: it does not fit a cell, or must not be
// posted.
func (i *instance) part(b []byte) ([]byte, bool) {
	has := &i.gathered
	if len(has.unacked) > 0 || has.flags&flagRefused != 0 || partHead+len(has.value) > board.MaxPart {
		return nil, false
	}
	return append(append(b, has.what, has.flags&flagsPosted), has.value...), true
}

// Look polls the ballots at which this process waits, and returns the number of agreements that
// have continued. It is needed while Waits reports true.
func (m *Machine) Look() (moved int) {
	for k := 0; k < len(m.atBallots); {
		if l := m.atBallots[k]; l.tryDecide() {
			moved++ // and has left the list, or is at its end again
		} else {
			k++
		}
	}
	return moved
}

// Waits reports whether this process waits at a ballot.
func (m *Machine) Waits() bool { return len(m.atBallots) > 0 }

// Doze announces at all ballots at which this process waits that it is about to sleep, and reports
// whether it may: there is nothing to look at, and other members will wake it by a frame.
func (m *Machine) Doze() bool {
	for _, l := range m.atBallots {
		l.ballot.Nap(l.rank, l.cur.seq)
	}
	for _, l := range m.atBallots {
		if l.scan() != board.Empty || l.closedAnywhere() {
			return false
		}
	}
	return true
}

// closedAnywhere reports whether the agreement goes back to messages for certain. The member that
// caused that woke only the members that slept by then.
func (s *sequence) closedAnywhere() bool {
	f, seq, next := &s.ballot, s.cur.seq, s.ballot.next
	for _, x := range f.sections[f.posted:] {
		if !f.HasSum(x.number, seq) {
			for _, rank := range x.voters[next:] {
				if s := f.Look(int(rank), seq); s != board.Posted && s != board.Empty {
					return true
				}
			}
		}
		next = 0
	}
	return false
}

// scan returns Posted if all have posted, Empty if a member has yet to post, and otherwise the
// state of a cell that ends the agreement at the ballot.
func (s *sequence) scan() board.State {
	f, seq := &s.ballot, s.cur.seq
	for ; f.posted < len(f.sections); f.posted, f.next = f.posted+1, 0 {
		x := &f.sections[f.posted]
		if f.HasSum(x.number, seq) {
			continue
		}
		if s.m.broken == hastySums && f.posted == 0 {
			f.LaySum(s.rank, seq, f.Part(s.rank, seq))
		}
		for ; f.next < len(x.voters); f.next++ {
			if s := f.Look(int(x.voters[f.next]), seq); s != board.Posted {
				return s
			}
		}
		if f.posted == 0 && len(f.sections) > 1 {
			s.sumUp(x)
		}
	}
	return board.Posted
}

// sumUp lays the sum of this process's section for the other members, if the proposals are of one kind.
func (s *sequence) sumUp(x *section) {
	i := s.cur
	sum := append(append(s.folded[:0], i.mine.What, i.gathered.flags&flagsPosted), i.mine.Value...)
	s.folded = sum
	if s.foldVoters(i, x, sum[partHead:]) {
		s.ballot.LaySum(s.rank, i.seq, sum)
	}
}

// tryDecide continues the agreement that waits at the ballot, if possible.
func (s *sequence) tryDecide() bool {
	i := s.cur
	switch s.scan() {
	case board.Empty:
		return false
	case board.Posted:
		if s.reduceBallot(i) {
			s.leaveBallot(i)
			i.decided = true
			s.decided(i)
			return true
		}
	}
	s.leaveBallot(i)
	i.advance()
	return true
}

// leaveBallot ends the wait at the ballot.
func (s *sequence) leaveBallot(i *instance) {
	i.atBallot = false
	k := slices.Index(s.m.atBallots, s)
	s.m.atBallots = slices.Delete(s.m.atBallots, k, k+1)
	s.wakeNeighbours(i)
}

// wakeNeighbours wakes the neighbours that sleep in an agreement which this process has seen
// continue.
func (s *sequence) wakeNeighbours(i *instance) {
	if s.m.broken == silentNaps {
		return
	}
	near := s.ballot.near
	if len(s.known) > len(s.agreed) {
		near = s.treeNeighbours(i)
	}
	for _, rank := range near {
		if s.ballot.Naps(rank, i.seq) {
			wake := frame{kind: kindWake, key: s.key, seq: i.seq}
			i.send(rank, wake.encode(nil))
		}
	}
}

// reduceBallot decides from the parts of all; false: they differ.
//
//banyan:decodes
func (s *sequence) reduceBallot(i *instance) bool {
	value := append(s.folded[:0], i.mine.Value...)
	s.folded = value // not i.value, which contains the messages' values
	for k := range s.ballot.sections {
		x := &s.ballot.sections[k]
		sum, ok := s.ballot.Sum(x.number, i.seq)
		switch {
		case !ok:
			ok = s.foldVoters(i, x, value)
		default:
			ok = s.fold(i, value, sum) && s.ballot.HasSum(x.number, i.seq)
		}
		if !ok {
			return false
		}
	}
	value = i.keepValue(value)
	i.gathered.kind, i.gathered.value = kindDown, value
	i.gathered.flags |= flagBinds
	return true
}

// foldVoters folds the parts of a section into value; false: one is of another kind than this process's.
func (s *sequence) foldVoters(i *instance, x *section, value []byte) bool {
	for _, voter := range x.voters {
		// A part is unchanged since it was looked at, unless this process counts as ended and the
		// others have continued.
		rank := int(voter)
		if !s.fold(i, value, s.ballot.Part(rank, i.seq)) || s.ballot.Look(rank, i.seq) != board.Posted {
			return false
		}
	}
	return true
}

// fold folds a part into value; false: it is of another kind than this process's.
func (s *sequence) fold(i *instance, value, part []byte) bool {
	mine := [partHead]byte{i.mine.What, i.gathered.flags & flagsPosted}
	if len(part) != partHead+len(value) || [partHead]byte(part) != mine {
		return false
	}
	if i.mine.Op != nil {
		i.mine.Op(value, part[partHead:])
	}
	return true
}

// dropBallot ends the use of a sequence's ballot.
func (s *sequence) dropBallot() {
	if s.ballot.Ballot == nil {
		return
	}
	if s.cur.atBallot {
		k := slices.Index(s.m.atBallots, s)
		s.m.atBallots = slices.Delete(s.m.atBallots, k, k+1)
	}
	if s.ballot.from == s.m.self {
		s.m.ballots.Drop(s.ballot.name)
	}
	s.ballot = openBallot{}
}
