package board

import "sync/atomic"

// A Hall is where the members of a group take steps together, as in a collective of few bytes. It differs from a [Board] in
// what it is for: nobody decides anything there. A member that misses others learns elsewhere that
// they have died, and no step after that counts. So a cell need not be sealed, and a member's steps are one
// number that grows.
//
// Each member has a [Seat], a line of cache, on which it says which step it has entered; who enters a step has done with all before it. In a step
// members may read each other's parts, of up to [Room] bytes, or what one of them has laid in the step's [Slot].
//
// # What is not overwritten
//
// A step is whole for a member that has seen all enter it. Parts are brought only to steps that are whole for all who end them, in
// turns into one of two places: so who brings one has seen all enter the last such step, and nobody
// reads a part of the one before that. Slots are taken in turns as well; of [Slots] steps in a row one at least must be whole.

// MaxLaid is the longest payload of a slot, in bytes. How long a member's part in a step may be Room says.
const (
	MaxLaid   = slotBytes - 8
	slotBytes = 2048
	// seatBytes is what a part may have to lie on its member's seat, which is read anyway.
	seatBytes = 24
	lineBytes = 64
)

// MaxMembers is the largest group that has a hall: each member looks at the seats of all.
const MaxMembers = 64

// PartsBytes is the memory of a hall for parts that are longer than what a seat has room for.
const PartsBytes = 44 << 10

// mostRoom is the length of parts, in bytes, beyond which messages are as fast for few members.
const mostRoom = 1 << 10

// Room is the longest part, in bytes, in a hall of so many members. Each reads everybody's.
func Room(members int) int { return min(mostRoom, PartsBytes/2/members&^(lineBytes-1)) }

// Slots is how many steps may lay something before one is whole.
const Slots = 8

// Elsewhere is the length of what is too long for a hall: members see that it takes another way.
const Elsewhere = 1<<31 - 1

// Seat is a member's place. Memory of zeros is that of a member that has entered no step.
type Seat struct {
	// word: the last step that the member has entered, and whether it has left. Written by the member after
	// what it brings to the step.
	word atomic.Uint64
	// nap: the low bits of the step in which the member sleeps, written by it.
	nap atomic.Uint32
	// lengths and parts: what the member has brought, written by it; published by word. Parts that are longer lie
	// elsewhere in the hall.
	lengths [2]uint16
	parts   [2][seatBytes]byte
}

// Slot is what a member lays for all in a step: written by it, published by its seat's word.
type Slot struct {
	length uint32
	stamp  uint32 // step and member; see stampOf
	data   [MaxLaid]byte
}

const (
	leftBit     = 1 << 63
	departedBit = 1 << 62
	stepMask    = departedBit - 1
	// tooLong is a part's length in a seat that says Elsewhere.
	tooLong = 1<<16 - 1
)

// Hall is a process's hold on seats and slots. It is not safe for concurrent use in one process; other processes use the same
// memory at the same time. Steps are numbered from 1.
type Hall struct {
	seats []Seat
	slots []Slot
	parts []byte // two of each member
	room  int    // of a part
}

// Meet gives a hold. Preconditions: len(seats) <= MaxMembers, len(slots) == Slots, len(parts) == PartsBytes.
func Meet(seats []Seat, slots []Slot, parts []byte) *Hall {
	return &Hall{seats, slots, parts, Room(len(seats))}
}

// Clear prepares the memory for a new group. Nobody uses it.
func (h *Hall) Clear() {
	for i := range h.seats {
		s := &h.seats[i]
		s.nap.Store(0)
		s.word.Store(0)
	}
}

// part is where a part lies that is longer than seatBytes.
func (h *Hall) part(member, turn int) []byte { return h.parts[(2*member+turn)*h.room:][:h.room] }

// Bring writes a member's part of the step that it is about to enter. Turn is 0 and 1 in turns. What is longer than
// Room counts as Elsewhere.
func (h *Hall) Bring(member, turn int, part []byte) {
	s := &h.seats[member]
	switch n := len(part); {
	case n > h.room:
		s.lengths[turn] = tooLong
		return
	case n > seatBytes:
		copy(h.part(member, turn), part)
	default:
		copy(s.parts[turn][:], part)
	}
	s.lengths[turn] = uint16(len(part))
}

// Brought gives a member's part, of Elsewhere no bytes. It is not to be changed.
//
//banyan:decodes
func (h *Hall) Brought(member, turn int) (part []byte, length int) {
	s := &h.seats[member]
	switch n := int(s.lengths[turn]); {
	case n <= seatBytes:
		return s.parts[turn][:n], n
	case n <= h.room:
		return h.part(member, turn)[:n], n
	}
	return nil, Elsewhere
}

// stampOf tells what a member has laid in a step from what others have, or in other steps.
func stampOf(member int, step uint64) uint32 { return uint32(step)<<8 | uint32(member)&0xff }

// Lay writes what all are to have in the step that the member is about to enter; what is longer than MaxLaid
// counts as Elsewhere.
func (h *Hall) Lay(member int, step uint64, payload []byte) {
	s := &h.slots[step%Slots]
	s.stamp = stampOf(member, step)
	if s.length = Elsewhere; len(payload) <= MaxLaid {
		s.length = uint32(copy(s.data[:], payload))
	}
}

// Laid gives what a member has laid in a step, of Elsewhere no bytes. It is not to be changed. False: another one has, or nobody.
//
//banyan:decodes
func (h *Hall) Laid(member int, step uint64) (payload []byte, length int, ok bool) {
	s := &h.slots[step%Slots]
	if s.stamp != stampOf(member, step) {
		return nil, 0, false
	}
	if n := int(s.length); n <= MaxLaid {
		return s.data[:n], n, true
	}
	return nil, Elsewhere, true
}

// Enter says that a member is in a step, and has done with those before.
func (h *Hall) Enter(member int, step uint64) { h.seats[member].word.Store(step) }

// Entered reports whether a member is in a step, or beyond it.
func (h *Hall) Entered(member int, step uint64) bool {
	return h.seats[member].word.Load()&stepMask >= step
}

// Leave says that a member enters no step any more and does not look at the hall again; departs: because its process
// leaves in order.
func (h *Hall) Leave(member int, departs bool) {
	bits := uint64(leftBit)
	if departs {
		bits |= departedBit
	}
	h.seats[member].word.Or(bits)
}

// Depart is the half of Leave that others see who wait: the member still looks.
func (h *Hall) Depart(member int) { h.seats[member].word.Or(departedBit) }

// Missed reports whether a member's process has left in order without having entered a step.
func (h *Hall) Missed(member int, step uint64) bool {
	w := h.seats[member].word.Load()
	return w&departedBit != 0 && w&stepMask < step
}

// Left reports whether a member has left. When all have the memory can serve others.
func (h *Hall) Left(member int) bool { return h.seats[member].word.Load()&leftBit != 0 }

// Nap says that a member is about to sleep in a step. It looks once more before it does.
func (h *Hall) Nap(member int, step uint64) { h.seats[member].nap.Store(uint32(step)) }

// Naps reports whether a member has said so.
func (h *Hall) Naps(member int, step uint64) bool { return h.seats[member].nap.Load() == uint32(step) }
