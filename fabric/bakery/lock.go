package bakery

import "sync/atomic"

// Word is a word of a lock's memory. Memory of zeros is a free lock.
type Word struct{ v atomic.Uint64 }

// Kind is a member's kind of access to the data that a lock protects.
type Kind uint8

// The kinds. Members with Shared hold a lock at the same time.
const (
	Shared Kind = 1 + iota
	Exclusive
)

// A member's word:
//
//	number 60 | asleep 1 | choosing 1 | kind 2
//
// 0: it neither holds the lock nor waits for it. One that has the lock at once keeps choosing: no member passes it.
const (
	kindMask   = 3
	choosing   = 1 << 2
	asleep     = 1 << 3
	numberUnit = 1 << 4
)

// Lock is a process's view of a lock. Any goroutine may call its methods, concurrently with other processes;
// methods that change the word of a member are called by the member's process.
type Lock struct {
	members []Word
	marks   []Word // a bit for each member, written by the keeper: it is excluded
}

// WordsOf is the number of words of a lock of so many members.
func WordsOf(members int) int { return members + (members+63)/64 }

// Open is the lock in some words. Precondition: there are WordsOf(members).
func Open(words []Word, members int) Lock {
	return Lock{words[:members:members], words[members:WordsOf(members)]}
}

// Request asks for the lock, and reports whether the member has it at once. Precondition: it does not hold it, and
// has not asked for it.
func (l Lock) Request(me int, kind Kind) (held bool) {
	l.choose(me, kind)
	highest, free := uint64(0), true
	for other := range l.members {
		number, compatible := l.ask(other, me, kind)
		highest, free = max(highest, number), free && compatible
	}
	if free && !l.Excluded(me) {
		return true
	}
	l.take(me, kind, highest)
	return false
}

// choose announces that a member is about to take a number.
func (l Lock) choose(me int, kind Kind) { l.members[me].v.Store(choosing | uint64(kind)) }

// ask gives the number of a member, 0 if it has none, and whether its word lets another one have the lock with some
// kind at once. A member that chooses and has seen that of all others has the lock: a member that asks after that sees it choose.
func (l Lock) ask(member, me int, kind Kind) (number uint64, compatible bool) {
	w := l.members[member].v.Load()
	return w / numberUnit, w == 0 || member == me || w&kindMask == uint64(Shared) && kind == Shared
}

// take gives a member the next number after the highest.
func (l Lock) take(me int, kind Kind, highest uint64) {
	l.members[me].v.Store((highest+1)*numberUnit | uint64(kind))
}

// Granted reports whether a member whose Request was not granted at once has the lock by now; from then on it has it
// until its Release. It reads the words of the members from one on, and returns the first member that is before this
// one: the next call begins there, the first one at 0.
func (l Lock) Granted(me, from int) (at int, ok bool) {
	if l.Excluded(me) {
		return from, false
	}
	if at = l.pass(me, from); at < len(l.members) {
		return at, false
	}
	l.awake(me)
	return at, true
}

// pass looks at the members from one on, and gives the first that keeps a member from the lock. Each must be seen once
// not to do so: later it has a higher number.
func (l Lock) pass(me, from int) (at int) {
	mine := l.members[me].v.Load()
	for at = from; at < len(l.members); at++ {
		if l.members[at].v.Load() != 0 && at != me && l.precedes(at, me, mine) {
			break
		}
	}
	return at
}

// awake ends Sleep.
func (l Lock) awake(me int) {
	if mine := l.members[me].v.Load(); mine&asleep != 0 {
		l.members[me].v.Store(mine &^ asleep)
	}
}

// precedes reports whether a member comes before another one with some word, or may yet.
func (l Lock) precedes(other, me int, mine uint64) bool {
	w := l.members[other].v.Load()
	switch {
	case w == 0 || w&kindMask == uint64(Shared) && mine&kindMask == uint64(Shared):
		return false
	case w&choosing == 0 && (w/numberUnit > mine/numberUnit || w/numberUnit == mine/numberUnit && other > me):
		return false
	}
	return !l.Excluded(other)
}

// Sleep announces that a member sleeps until it is woken, if it is not Granted the lock now.
func (l Lock) Sleep(me int) {
	if mine := l.members[me].v.Load(); mine&asleep == 0 {
		l.members[me].v.Store(mine | asleep)
	}
}

// Release gives the lock back, or withdraws the request for it.
func (l Lock) Release(me int) { l.members[me].v.Store(0) }

// Next returns the first sleeper from a member on that has the lock now and may not be awake; -1: there is none. A
// member calls it after a Request that was not granted at once and after its Release, and the keeper after Exclude.
func (l Lock) Next(from int) int {
	for member := from; member < len(l.members); member++ {
		if l.members[member].v.Load()&asleep != 0 && l.kept(member) {
			return member
		}
	}
	return -1
}

// kept reports whether a member sleeps although it has the lock.
func (l Lock) kept(member int) bool {
	return l.members[member].v.Load()&asleep != 0 && !l.Excluded(member) && l.pass(member, 0) == len(l.members)
}

// Exclude marks a member that has ended. Precondition: the keeper calls it, one goroutine at a time.
func (l Lock) Exclude(member int) {
	mark := &l.marks[member/64].v
	mark.Store(mark.Load() | 1<<(member%64))
}

// Excluded reports whether the keeper has marked a member. A member that is never gets the lock.
func (l Lock) Excluded(member int) bool { return l.marks[member/64].v.Load()>>(member%64)&1 != 0 }
