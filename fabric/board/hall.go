package board

import "sync/atomic"

// A Hall is where the members of a group take steps together, as in a collective of few bytes. It differs from a [Board] in
// what it is for: nobody decides anything there. A member that misses others learns elsewhere that
// they have died, and no step after that counts. So a cell need not be sealed, and a member's steps are one
// number that grows.
//
// Each member has a [Seat], a line of cache, on which it says which step it has entered; who enters a step has done with all before it. In a step
// members may read each other's parts, of up to [MaxBrought] bytes, or what one of them has laid in the step's [Slot].
//
// # What is not overwritten
//
// A step is whole for a member that has seen all enter it. Parts are brought only to steps that are whole for all who end them, in
// turns into one of two places: so who brings one has seen all enter the last such step, and nobody
// reads a part of the one before that. Slots are taken in turns as well; of [Slots] steps in a row one at least must be whole.

// MaxBrought is the longest part of a member in a step, MaxLaid the longest payload of a slot, in bytes.
const (
	MaxBrought = 24
	MaxLaid    = slotBytes - 8
	slotBytes  = 2048
)

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
	// lengths and parts: what the member has brought, written by it; published by word.
	lengths [2]uint8
	_       [2]byte
	parts   [2][MaxBrought]byte
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
	tooLong = MaxBrought + 1
)

// Hall is a process's hold on seats and slots. It is not safe for concurrent use in one process; other processes use the same
// memory at the same time. Steps are numbered from 1.
type Hall struct {
	seats []Seat
	slots []Slot
}

// Meet gives a hold. Precondition: len(slots) == Slots.
func Meet(seats []Seat, slots []Slot) *Hall { return &Hall{seats, slots} }

// Clear prepares the memory for a new group. Nobody uses it.
func (h *Hall) Clear() {
	for i := range h.seats {
		s := &h.seats[i]
		s.nap.Store(0)
		s.word.Store(0)
	}
}

// Members is the number of members.
func (h *Hall) Members() int { return len(h.seats) }

// Bring writes a member's part of the step that it is about to enter. Turn is 0 and 1 in turns. What is longer than
// MaxBrought counts as Elsewhere.
func (h *Hall) Bring(member, turn int, part []byte) {
	s := &h.seats[member]
	if s.lengths[turn] = tooLong; len(part) <= MaxBrought {
		s.lengths[turn] = uint8(copy(s.parts[turn][:], part))
	}
}

// Brought gives a member's part, of Elsewhere no bytes. It is not to be changed.
func (h *Hall) Brought(member, turn int) (part []byte, length int) {
	s := &h.seats[member]
	if n := int(s.lengths[turn]); n <= MaxBrought {
		return s.parts[turn][:n], n
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

// Empty reports whether all have left, so that the memory can serve others.
func (h *Hall) Empty() bool {
	for i := range h.seats {
		if h.seats[i].word.Load()&leftBit == 0 {
			return false
		}
	}
	return true
}

// Nap says that a member is about to sleep in a step. It looks once more before it does.
func (h *Hall) Nap(member int, step uint64) { h.seats[member].nap.Store(uint32(step)) }

// Naps reports whether a member has said so.
func (h *Hall) Naps(member int, step uint64) bool { return h.seats[member].nap.Load() == uint32(step) }
