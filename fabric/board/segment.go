package board

import (
	"sync/atomic"

	"github.com/banyan-hpc/banyan/internal/release"
)

// A Segment is memory in which the members of a group take steps together, as in a collective of few
// bytes. It differs from a [Board] in its purpose: no member decides anything there. A member that
// misses another learns elsewhere that it has died, and no later step counts. So a slot is never
// sealed, and the steps of a member are one number that grows.
//
// Each member has a [Slot], a cache line, with the number of the step that it has entered. A member that
// enters a step has done with all steps before. In a step members may read each other's parts, of up to
// [Wide] bytes, or the payload that one of them has laid in the step's [Buffer].
//
// # Groups
//
// Members are in groups of [GroupSize]. A member that has seen all of a group enter a step says so in a line
// for all ([Common]), and others need not look at the slots of that group. So many members look at a few lines each:
// those of their own group, which they look at first, and one for each other. The line is only a shortcut:
// a group without such a line yet is looked at slot by slot, so a member that dies before it has said
// so delays no other.
//
// In the same way a member that has folded the parts of a group lays the sum for the others. Members that
// fold the same parts at the same time lay the same bytes.
//
// # Reuse of memory
//
// A step is complete for a member that has seen all members enter it. Parts are brought only to steps
// that are complete for each member that ends them, in turns into one of two places. So a member that
// brings a part has seen all enter the last such step, and none reads a part of the one before that. A part has
// a stamp, of its step and operation, by which a reader finds it in one of the two places, or sees that there is none.
// Buffers are taken in turns as well; of [Buffers] steps in a row at least one must be complete.

// MaxLaid is the longest payload of a buffer, in bytes.
const (
	MaxLaid     = bufferBytes - 8
	bufferBytes = 2048
	// slotBytes is the longest part that lies in its member's slot, which is read anyway.
	slotBytes = 24
	lineBytes = 64
)

// GroupSize is the number of members that have a group together.
const GroupSize = 64

// MaxMembers is the largest number of members: each reads the parts of all.
const MaxMembers = 512

// Slots is the number of slots for which a segment of so many members has memory: those of a group,
// or of as many as there may be.
func Slots(members int) int {
	if members <= GroupSize {
		return GroupSize
	}
	return MaxMembers
}

// PartsBytes is the memory of a segment of so many members for parts longer than slotBytes.
func PartsBytes(members int) int {
	switch {
	case members <= 2:
		return 43 << 10
	case members <= GroupSize:
		return 491 << 10
	}
	return 79 << 10
}

const (
	// mostRoom is the length of parts, in bytes, beyond which messages are as fast for few members, if each reads the
	// parts of all, and pairRoom for two; narrowBytes is what it reads at most in a group.
	mostRoom    = 1 << 10
	pairRoom    = 4 << 10
	narrowBytes = 43 << 9
	// mostWide is that length if each reads a block of each part, and room for a line beside the blocks.
	mostWide = 16<<10 + lineBytes
)

// Room is the longest part, in bytes, that all members of a segment of so many read.
func Room(members int) int {
	switch {
	case members <= 2:
		return pairRoom
	case members <= GroupSize:
		return min(mostRoom, narrowBytes/members&^(lineBytes-1))
	}
	return Wide(members)
}

// Wide is the longest part, in bytes, in a segment of so many members: one of which each reads a block.
func Wide(members int) int {
	most := mostWide
	if members > GroupSize {
		most = mostRoom
	}
	return min(most, PartsBytes(members)/2/(members+groupsOf(members, GroupSize))&^(lineBytes-1))
}

// groupsOf is the number of groups of a size; one group needs no sums.
func groupsOf(members, size int) int {
	if members <= size {
		return 0
	}
	return (members + size - 1) / size
}

// Buffers is how many steps may lay a payload before one is complete.
const Buffers = 8

// Elsewhere is the length of a part or payload that is too long for a segment: members see that it
// takes another way.
const Elsewhere = 1<<31 - 1

// NoPart is the length of the part of a member that has come for another operation.
const NoPart = -1

// Slot is the place of a member. Memory of zeros is that of a member that has entered no step.
type Slot struct {
	// word: the last step that the member has entered, whether it sleeps there, and whether it has left. Written by
	// the member after its part of the step. It is accessed by atomic operations and by release.Store64.
	word uint64
	// parts of the member, written by it and published by word.
	parts [2]part
}

// part is a part; a long one lies elsewhere in the segment.
type part struct {
	length uint16
	stamp  uint16 // step and operation; see partStamp
	data   [slotBytes]byte
}

// partStamp tells the part of a step and an operation, whose number is from 1 to 31, from those of others.
func partStamp(step uint64, op uint8) uint16 { return uint16(step)<<5 | uint16(op) }

// Common is the data that members write for all.
type Common struct {
	// groups: the last step that all members of a group were seen to have entered.
	groups [MaxMembers / GroupSize]line
	// apart: the last step to which a member has come with a part that is too long. Written by it before
	// it enters the step.
	apart line
	// sums: by the low bit of the step and group, the fold of the parts of its members, which lies behind the parts.
	sums [2][MaxMembers / GroupSize]sum
	_    [1024 - (MaxMembers/GroupSize+1)*lineBytes - 2*MaxMembers/GroupSize*16]byte
}

// sum: the step whose parts have been folded, stored after length and sum have been written.
type sum struct {
	step   atomic.Uint64
	length uint32
	_      uint32
}

// line is a number that grows, in a cache line of its own.
type line struct {
	n atomic.Uint64
	_ [lineBytes - 8]byte
}

// rise has the number be at least n.
func (l *line) rise(n uint64) {
	for at := l.n.Load(); at < n && !l.n.CompareAndSwap(at, n); at = l.n.Load() {
	}
}

const (
	leftBit     = 1 << 63
	departedBit = 1 << 62
	napBit      = 1 << 61
	stepMask    = napBit - 1
	// tooLong is the length in a slot that stands for Elsewhere.
	tooLong = 1<<16 - 1
)

// Segment is a process's handle on slots and buffers. It is not safe for concurrent use in one process;
// other processes use the same memory at the same time. Steps are numbered from 1.
type Segment struct {
	slots   []Slot
	common  *Common
	buffers []Buffer
	parts   []byte // two of each member
	room    int    // of a part
	group   int    // GroupSize, but in tests
}

// Open gives a handle. Preconditions: len(slots) <= MaxMembers, len(buffers) == Buffers,
// len(parts) == PartsBytes(len(slots)).
func Open(slots []Slot, common *Common, buffers []Buffer, parts []byte) *Segment {
	return &Segment{slots, common, buffers, parts, Wide(len(slots)), GroupSize}
}

// Clear prepares the memory for a new group. No process uses it.
func (g *Segment) Clear() {
	for i := range g.slots {
		s := &g.slots[i]
		s.parts[0].stamp, s.parts[1].stamp = 0, 0
		atomic.StoreUint64(&s.word, 0)
	}
	for i := range g.common.groups {
		g.common.groups[i].n.Store(0)
		g.common.sums[0][i].step.Store(0)
		g.common.sums[1][i].step.Store(0)
	}
	g.common.apart.n.Store(0)
	for i := range g.buffers {
		atomic.StoreUint64(&g.buffers[i].word, 0)
	}
}

// part is the place of a part that is longer than slotBytes.
func (g *Segment) part(member, turn int) []byte { return g.parts[(2*member+turn)*g.room:][:g.room] }

// Bring writes a member's part of the step that it is about to enter, for an operation with a number. Turn alternates
// between 0 and 1. A part longer than Wide counts as Elsewhere.
func (g *Segment) Bring(member int, step uint64, turn int, op uint8, part []byte) {
	if len(part) > g.room {
		g.bringElsewhere(member, step, turn, op)
		return
	}
	copy(g.newPlace(member, step, turn, op, len(part)), part)
}

// newPlace is Bring of a part that the member writes to the place before it enters.
func (g *Segment) newPlace(member int, step uint64, turn int, op uint8, length int) []byte {
	p := &g.slots[member].parts[turn]
	p.length, p.stamp = uint16(length), partStamp(step, op)
	return g.place(member, turn, length)
}

// Stamped reports whether the part of a member is that of a step and an operation.
//
//banyan:decodes
func (g *Segment) Stamped(member, turn int, stamp uint16) bool {
	return g.slots[member].parts[turn].stamp == stamp
}

// place is the place of a member's part of a length, which is at most Wide.
func (g *Segment) place(member, turn, length int) []byte {
	if length > slotBytes {
		return g.part(member, turn)[:length]
	}
	return g.slots[member].parts[turn].data[:length]
}

// Brought gives a member's part, of Elsewhere no bytes. It is not to be changed.
//
//banyan:decodes
func (g *Segment) Brought(member, turn int) (part []byte, length int) {
	if n := int(g.slots[member].parts[turn].length); n <= g.room {
		return g.place(member, turn, n), n
	}
	return nil, Elsewhere
}

// bringElsewhere is Bring of a part that is too long.
func (g *Segment) bringElsewhere(member int, step uint64, turn int, op uint8) {
	p := &g.slots[member].parts[turn]
	p.length, p.stamp = tooLong, partStamp(step, op)
	g.common.apart.rise(step)
}

// Enter announces that a member is in a step, and has done with those before.
func (g *Segment) Enter(member int, step uint64) { atomic.StoreUint64(&g.slots[member].word, step) }

// EnterUnsettled is Enter without order with what the member reads later: it does not wait until other cores have given
// up the lines that the member has written.
func (g *Segment) EnterUnsettled(member int, step uint64) {
	release.Store64(&g.slots[member].word, step)
}

// Entered reports whether a member is in a step, or beyond it.
func (g *Segment) Entered(member int, step uint64) bool {
	return atomic.LoadUint64(&g.slots[member].word)&stepMask >= step
}

// GroupEntered reports whether all members of a group are in a step, or beyond it, as far as that has been said.
func (g *Segment) GroupEntered(group int, step uint64) bool {
	return g.common.groups[group].n.Load() >= step
}

// SayGroupEntered says that all members of a group are in a step.
func (g *Segment) SayGroupEntered(group int, step uint64) { g.common.groups[group].rise(step) }

// Groups is the number of groups; 0: one group needs nothing of them.
func (g *Segment) Groups() int { return groupsOf(len(g.slots), g.group) }

// Members are the members of a group: from first up to before end.
func (g *Segment) Members(group int) (first, end int) {
	return group * g.group, min(group*g.group+g.group, len(g.slots))
}

// LaySum lays the fold of the parts of a group in a step, of at most Room bytes. All members that
// lay one for that step lay the same.
func (g *Segment) LaySum(group int, step uint64, fold []byte) {
	s := &g.common.sums[step&1][group]
	if s.step.Load() != step {
		s.length = uint32(copy(g.part(len(g.slots)+group, int(step&1)), fold))
		s.step.Store(step)
	}
}

// Sum gives the fold of the parts of a group, if it has been laid. It is not to be changed.
//
//banyan:decodes
func (g *Segment) Sum(group int, step uint64) (fold []byte, ok bool) {
	s := &g.common.sums[step&1][group]
	if n := int(s.length); s.step.Load() == step && n <= g.room {
		return g.part(len(g.slots)+group, int(step&1))[:n], true
	}
	return nil, false
}

// Apart reports whether a member has come to a step, or is about to, with a part that is too long.
func (g *Segment) Apart(step uint64) bool { return g.common.apart.n.Load() == step }

// Leave announces that a member enters no further step and does not look at the segment again; departs:
// because its process leaves in order.
func (g *Segment) Leave(member int, departs bool) {
	bits := uint64(leftBit)
	if departs {
		bits |= departedBit
	}
	atomic.OrUint64(&g.slots[member].word, bits)
}

// Depart is the half of Leave that waiting members see: the member still looks.
func (g *Segment) Depart(member int) { atomic.OrUint64(&g.slots[member].word, departedBit) }

// Missed reports whether a member's process has left in order without having entered a step.
func (g *Segment) Missed(member int, step uint64) bool {
	w := atomic.LoadUint64(&g.slots[member].word)
	return w&departedBit != 0 && w&stepMask < step
}

// Left reports whether a member has left. When all have the memory can serve another group.
func (g *Segment) Left(member int) bool { return atomic.LoadUint64(&g.slots[member].word)&leftBit != 0 }

// Nap announces that a member is about to sleep in the step that it is in. It looks once more before it does.
func (g *Segment) Nap(member int) { atomic.OrUint64(&g.slots[member].word, napBit) }

// Naps reports whether a member sleeps in a step, or is about to.
func (g *Segment) Naps(member int, step uint64) bool {
	w := atomic.LoadUint64(&g.slots[member].word)
	return w&napBit != 0 && w&stepMask == step
}
