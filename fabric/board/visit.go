package board

// Everyone is who has to come to a step if all have.
const Everyone = -1

// A Visit is a member's way through a hall: which step it is in, for whom it waits, and what it looks at before it sleeps. How
// it waits, and how it learns that others have died, is for who uses it. So whatever may happen can be tried (see
// TestExhaustive).
//
// In a step the member brings or lays something, if it does, enters, and looks by Here until that says yes, or it learns elsewhere that the
// step has no end. A member that would rather sleep says so by Nap, and looks by Doze. In the end it wakes those that it is to
// wake and that nap, by Naps: who wakes whom is a connected graph, and goes both ways. Each of these calls may come at any moment of
// the others'.
type Visit struct {
	hall  *Hall
	me    int
	step  uint64 // the last one that was entered
	whole uint64 // the last one that all were seen to enter
	parts uint64 // the last one that this member has brought a part to
	turn  int    // of the last parts; see Hall.Bring
	from  int    // who has to come: a member, or Everyone
	next  int    // of Everyone: those below it have come
}

// Visit begins the way of a member that has not been in the hall.
func (h *Hall) Visit(member int) Visit { return Visit{hall: h, me: member, from: Everyone} }

// Step is the number of the step that was entered last.
func (v *Visit) Step() uint64 { return v.step }

// Bring brings a part to the next step, which is for everyone. False: it is too long, and the member goes another way once it has entered:
// it waits for nobody in the hall, and must hear of all others outside of it before it comes to another step.
func (v *Visit) Bring(part []byte) (waits bool) {
	v.turn ^= 1
	v.parts = v.step + 1
	v.hall.Bring(v.me, v.turn, part)
	return len(part) <= v.hall.room
}

// Brought gives what a member has brought to the last step with parts, until this one brings the next; see Hall.Brought.
func (v *Visit) Brought(member int) (part []byte, length int) { return v.hall.Brought(member, v.turn) }

// Lay lays what all are to have in the next step.
func (v *Visit) Lay(payload []byte) { v.hall.Lay(v.me, v.step+1, payload) }

// Laid gives what a member has laid in this step, until the next one; see Hall.Laid.
func (v *Visit) Laid(member int) (payload []byte, length int, ok bool) {
	return v.hall.Laid(member, v.step)
}

// From is who has to come to the next step, in which a root lays something: the root, or everyone, so that slots can be used again.
func (v *Visit) From(root int) int {
	if v.step+1-v.whole >= Slots-1 {
		return Everyone
	}
	return root
}

// Enter enters the next step, for which a member has to come, or everyone.
func (v *Visit) Enter(from int) {
	v.step++
	v.from, v.next = from, 0
	v.hall.Enter(v.me, v.step)
}

// Here reports whether those who have to come have.
func (v *Visit) Here() bool {
	if v.from != Everyone {
		return v.hall.Entered(v.from, v.step)
	}
	for ; v.next < len(v.hall.seats); v.next++ {
		if !v.hall.Entered(v.next, v.step) {
			return false
		}
	}
	return true
}

// Apart reports whether somebody was seen to have come to this step with what is too long.
func (v *Visit) Apart() bool {
	for member := range v.hall.seats {
		if _, length := v.hall.Brought(member, v.turn); length == Elsewhere && v.hall.Entered(member, v.step) {
			return true
		}
	}
	return false
}

// Sight is what a member sees before it sleeps.
type Sight uint8

// What may be seen.
const (
	// Nothing: the member may sleep; it is woken.
	Nothing Sight = iota
	// All those who have to come have.
	All
	// Apart: somebody has come with what is too long.
	Apart
	// Missing: a member's process has left in order without having come.
	Missing
)

// Nap says that the member is about to sleep in this step. It looks by Doze before it does.
func (v *Visit) Nap() { v.hall.Nap(v.me, v.step) }

// Doze looks once more: who comes last, or who has come to wake this member later, sees that it naps, or it sees here that all have
// come. Member is who is missing: also where nobody waits for it, as it may be the one that was to wake this one.
func (v *Visit) Doze() (s Sight, member int) {
	switch {
	case v.Here():
		return All, 0
	case v.parts == v.step && v.Apart():
		return Apart, 0
	}
	for member := range v.hall.seats {
		if v.hall.Missed(member, v.step) {
			return Missing, member
		}
	}
	return Nothing, 0
}

// End ends the step: those who had to come have, or it is known that they will outside of the hall.
func (v *Visit) End() {
	if v.from == Everyone {
		v.whole = v.step
	}
}

// Naps reports whether a member sleeps in this step, so that it has to be woken if this one is to wake it.
func (v *Visit) Naps(member int) bool { return v.hall.Naps(member, v.step) }
