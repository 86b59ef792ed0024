package agree

import (
	"slices"

	"github.com/banyan-hpc/banyan/fabric/board"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// Where all members of a line share memory an agreement in which nothing is wrong takes no messages. Each member
// posts its proposal on a board; who sees the proposals of all has the decision, which is the same for
// everybody who looks, then or later, also if some have died meanwhile. So it is uniform.
//
// The agreement goes by messages after all, for all members alike, if one of the cells says so: because its member
// proposes nothing that fits, knows of an end that is not agreed on yet, has something not acknowledged, proposes
// something else than the others; or because somebody who takes the member for dead has sealed the cell before
// the member could post. Since a cell does not change any more, nobody can have decided from the
// board then.
//
// Which board is part of a decision that was reached by messages: who contributes says whether all below it can use the memory of
// the root, and the root makes a board there if all can.

// MaxFlat is the largest group that has a board: beyond it a tree is faster.
const MaxFlat = 64

// Boards is the memory that processes share, as the machine needs it.
type Boards interface {
	// Reach reports whether this process can open the boards of another one, now and as long as it lives
	// itself. It is asked again later if not.
	Reach(owner proc.ID) bool
	// Make takes memory of this process for so many members, whose next step is given, and names
	// the board; false: there is none.
	Make(members int, next uint32) (name uint64, ok bool)
	// Open gives a board by its name; nil: nobody can have made it. Precondition: Reach(owner), or the owner is this process.
	Open(owner proc.ID, name uint64, members int) *board.Board
	// Drop gives the memory of a board back that this process has made.
	Drop(name uint64)
}

// Use lets the machine use boards. It is called before the first line is opened, at all processes of a job or at
// none.
func (m *Machine) Use(b Boards) { m.boards = b }

// flat is a line's board.
type flat struct {
	*board.Board
	name uint64
	from proc.ID // whose memory it is
	// voters are the ranks that are not agreed to be gone, near those of them whom this process wakes, and who wake it, if nobody
	// else is gone; see survey.
	voters []int32
	near   []int
	next   int // of voters: those before it have been seen to have posted
}

// A part is a kind, flags and the value.
const partHead = 2

// offers reports whether this process, for one, can use a board of the root in the tree as it is agreed to
// be.
func (l *sequence) offers() bool {
	if l.m.boards == nil || l.flat.Board != nil || len(l.known) > len(l.agreed) || l.group.Size() > MaxFlat {
		return false
	}
	owner := l.owner()
	if owner == l.m.self || l.m.boards.Reach(owner) {
		return true
	}
	if l.connectAsked != owner+1 { // once for each root
		l.connectAsked = owner + 1
		l.m.emit(Action{Kind: Await, Peer: owner, Connect: true})
	}
	return false
}

// owner is the process at the root of the tree in which nobody dies.
func (l *sequence) owner() proc.ID {
	t := tree{l.m.shape.Digit, l.group.Size(), l.agreed, l.agreed}
	return l.group.Proc(t.rank(0))
}

// grant is the root's part, when it decides: it makes a board if all can use it.
func (i *instance) grant() {
	l := i.s
	if i.gathered.flags&flagBallot == 0 {
		return
	}
	ok := len(i.gathered.ended) == 0 && l.owner() == l.m.self
	if ok {
		i.gathered.ballot, ok = l.m.boards.Make(l.group.Size(), i.seq+1)
	}
	if !ok || !l.install(&i.gathered) {
		i.gathered.flags &^= flagBallot
	}
}

// install opens the board that a decision names; false: it names none. Precondition: base is as it was during the
// agreement.
func (l *sequence) install(f *frame) bool {
	owner := l.owner()
	if l.m.boards == nil || l.flat.Board != nil || l.group.Size() > MaxFlat || owner != l.m.self && !l.m.boards.Reach(owner) {
		return false
	}
	b := l.m.boards.Open(owner, f.ballot, l.group.Size())
	if b == nil {
		return false
	}
	l.flat = flat{Board: b, name: f.ballot, from: owner}
	return true
}

// around lists whom this process wakes, and who wake it: its neighbours in the tree.
func (l *sequence) around(i *instance) []int {
	t := i.tree()
	out := i.children(&t)
	if parent := t.parent(l.rank); parent >= 0 {
		out = append(out, parent)
		l.below = out
	}
	return out
}

// post has this process's proposal take part by the board, and reports whether it does. Precondition: the agreement
// has just been entered.
func (l *sequence) post(i *instance) bool {
	if l.flat.Board == nil {
		return false
	}
	i.boarded = true
	var b [board.MaxPart]byte
	part, ok := i.part(b[:0])
	if !ok || len(l.known) > len(l.agreed) {
		l.flat.Seal(l.rank, i.seq)
	} else if l.flat.Post(l.rank, i.seq, part) == board.Posted {
		i.flat, l.flat.next = true, 0
		l.m.flat = append(l.m.flat, l)
		return true
	}
	l.rouse(i) // who sleeps is to go on by messages
	return false
}

// survey finds who takes part in the agreements that are to come by the board.
func (l *sequence) survey() {
	f := &l.flat
	f.voters, f.near = make([]int32, 0, l.group.Size()-len(l.agreed)), slices.Clone(l.around(l.cur))
	for rank := range l.group.Size() {
		if !l.agreed.has(rank) {
			f.voters = append(f.voters, int32(rank))
		}
	}
}

// part appends what this process posts; false: it does not fit a cell, or is not for one.
func (i *instance) part(b []byte) ([]byte, bool) {
	has := &i.gathered
	if len(has.unacked) > 0 || has.flags&flagRefused != 0 || partHead+len(has.value) > board.MaxPart {
		return nil, false
	}
	return append(append(b, has.what, has.flags&flagsPosted), has.value...), true
}

// Look looks at the boards at which this process waits, and says how many agreements have gone on. There is something to
// look at while Waits says so.
func (m *Machine) Look() (moved int) {
	for k := 0; k < len(m.flat); {
		if l := m.flat[k]; l.resume() {
			moved++ // and has left the list, or is at its end again
		} else {
			k++
		}
	}
	return moved
}

// Waits reports whether this process waits at some board.
func (m *Machine) Waits() bool { return len(m.flat) > 0 }

// Doze says at all boards at which this process waits that it is about to sleep, and reports whether there is
// nothing to look at, so that it can: others will wake it then by a frame.
func (m *Machine) Doze() bool {
	for _, l := range m.flat {
		l.flat.Nap(l.rank, l.cur.seq)
	}
	for _, l := range m.flat {
		if l.scan() != board.Empty || l.spoilt() {
			return false
		}
	}
	return true
}

// spoilt reports whether it is certain already that the agreement goes by messages. Who has caused that has woken only
// those who slept by then.
func (l *sequence) spoilt() bool {
	for _, rank := range l.flat.voters[l.flat.next:] {
		if s := l.flat.Look(int(rank), l.cur.seq); s != board.Posted && s != board.Empty {
			return true
		}
	}
	return false
}

// scan gives Posted if all have posted, Empty if somebody has to come yet, and else that the agreement
// goes by messages.
func (l *sequence) scan() board.State {
	f, seq := &l.flat, l.cur.seq
	for ; f.next < len(f.voters); f.next++ {
		if s := f.Look(int(f.voters[f.next]), seq); s != board.Posted {
			return s
		}
	}
	return board.Posted
}

// resume sees whether the agreement that waits at the board can go on, and has it go on.
func (l *sequence) resume() bool {
	i := l.cur
	switch l.scan() {
	case board.Empty:
		return false
	case board.Posted:
		if l.fold(i) {
			l.leave(i)
			i.decided = true
			l.decided(i)
			return true
		}
	}
	l.leave(i)
	i.advance()
	return true
}

// leave ends the wait at the board.
func (l *sequence) leave(i *instance) {
	i.flat = false
	k := slices.Index(l.m.flat, l)
	l.m.flat = slices.Delete(l.m.flat, k, k+1)
	l.rouse(i)
}

// rouse wakes those who sleep in an agreement that this process has seen go on.
func (l *sequence) rouse(i *instance) {
	if l.m.broken == silentNaps {
		return
	}
	near := l.flat.near
	if len(l.known) > len(l.agreed) {
		near = l.around(i)
	}
	for _, rank := range near {
		if l.flat.Naps(rank, i.seq) {
			wake := frame{kind: kindWake, key: l.key, seq: i.seq}
			i.send(rank, wake.encode(nil))
		}
	}
}

// fold decides from the parts of all; false: they are not alike.
//
//banyan:decodes
func (l *sequence) fold(i *instance) bool {
	mine := l.flat.Part(l.rank, i.seq)
	value, op := append(l.folded[:0], i.mine.Value...), i.mine.Op
	l.folded = value // and not i.value, which has what was heard by messages
	for _, voter := range l.flat.voters {
		rank := int(voter)
		part := l.flat.Part(rank, i.seq)
		long := len(part) == partHead+len(value) && len(mine) == len(part)
		alike := long && [partHead]byte(part) == [partHead]byte(mine)
		if alike && op != nil {
			op(value, part[partHead:])
		}
		// A part stays as it was looked for, unless this process counts as dead and the others have gone on.
		if !alike || l.flat.Look(rank, i.seq) != board.Posted {
			return false
		}
	}
	value = i.keepValue(value)
	i.gathered.kind, i.gathered.value = kindDown, value
	i.gathered.flags |= flagBinds
	return true
}

// drop ends the use of a line's board.
func (l *sequence) drop() {
	if l.flat.Board == nil {
		return
	}
	if l.cur.flat {
		k := slices.Index(l.m.flat, l)
		l.m.flat = slices.Delete(l.m.flat, k, k+1)
	}
	if l.flat.from == l.m.self {
		l.m.boards.Drop(l.flat.name)
	}
	l.flat = flat{}
}
