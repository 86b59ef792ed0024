package board

import "sync/atomic"

// Everyone stands for all members where one may be named that has to come to a step.
const Everyone = -1

// A Phase is the state of a member in a segment: the step that it is in, the members for which it
// waits, and the look that it takes before it sleeps. How it waits, and how it learns that others have
// died, is left to its user. So a test can try all orders of events (see TestExhaustive).
//
// In a step the member brings a part or lays a payload, if it has one, enters, and calls Here until that
// reports true, or it learns elsewhere that the step has no end. A member that would rather sleep calls
// Nap, and then Doze. In the end it wakes those of its neighbours that sleep, by Naps: the graph of
// neighbours is connected and undirected. Each of these calls may come at any moment of the others'.
type Phase struct {
	segment   *Segment
	me        int
	step      uint64 // the last one that was entered
	complete  uint64 // the last one that all were seen to enter
	parts     uint64 // the last one with a part of this member
	turn      int    // of the last parts; see Segment.Bring
	stamped   uint64 // the last step in which this member reads parts
	stamp     uint16 // of these parts
	other     int    // a member that was seen to have come to this step without such a part, or -1
	from      int    // the member that has to come, or Everyone
	groups    int    // of Everyone: so many groups have come, the own one first
	next      int    // so many members of the next group have come
	unsettled bool   // the entry into the step has no order yet with later looks at naps
	settled   uint32 // see Naps
}

// Phase is the state of a member that has entered no step.
func (g *Segment) Phase(member int) Phase {
	return Phase{segment: g, me: member, from: Everyone, other: -1}
}

// Step is the number of the step that was entered last.
func (p *Phase) Step() uint64 { return p.step }

// Bring brings a part to the next step, to which everyone has to come, for an operation with a number from 1 to 31. A
// member whose part is too long takes another way once it has entered: it waits for no member in the segment, and needs a
// message of each before it enters another step.
func (p *Phase) Bring(op uint8, part []byte) {
	p.bring(op)
	p.segment.Bring(p.me, p.parts, p.turn, op, part)
}

func (p *Phase) bring(op uint8) {
	p.Collect(op)
	p.parts = p.step + 1
}

// Place is Bring of a part that the member writes to the place before it enters.
//
// Precondition: the part is at most Wide long.
func (p *Phase) Place(op uint8, length int) []byte {
	p.bring(op)
	return p.segment.newPlace(p.me, p.parts, p.turn, op, length)
}

// Come is Bring of no part: other members see that this one has come for the operation.
func (p *Phase) Come(op uint8) {
	p.Collect(op)
	p.segment.newPlace(p.me, p.stamped, p.turn, op, 0)
}

// BringElsewhere is Bring of a part that is too long.
func (p *Phase) BringElsewhere(op uint8) {
	p.bring(op)
	p.segment.bringElsewhere(p.me, p.parts, p.turn, op)
}

// Collect has this member read the parts of the next step, to which it brings none itself.
func (p *Phase) Collect(op uint8) {
	p.turn ^= 1
	p.stamped, p.stamp = p.step+1, partStamp(p.step+1, op)
}

// Other is a member that has come to the last step without a part for the operation of this one, or -1. Of members in
// another group it may not be seen.
func (p *Phase) Other() (member int) { return p.other }

// Brought gives the part of a member in the last step with parts, until this one brings the next; see
// Segment.Brought.
func (p *Phase) Brought(member int) (part []byte, length int) {
	place := p.placeOf(member)
	if !p.segment.Stamped(member, place, p.stamp) {
		return nil, NoPart
	}
	return p.segment.Brought(member, place)
}

// Part is Brought of a part whose length has been checked, and is not read again.
func (p *Phase) Part(member, length int) []byte {
	return p.segment.place(member, p.placeOf(member), length)
}

// placeOf is the place of the part of a member: that of this one's own, unless one of the two has had another number of
// steps with parts, as it has called another operation at some time.
func (p *Phase) placeOf(member int) int {
	if p.segment.Stamped(member, p.turn, p.stamp) {
		return p.turn
	}
	return p.turn ^ 1
}

// see looks whether a member that has come has a part for the same operation.
func (p *Phase) see(member int) {
	if p.stamped == p.step && !p.segment.Stamped(member, p.turn, p.stamp) && member != p.me &&
		!p.segment.Stamped(member, p.turn^1, p.stamp) {
		p.other = member
	}
}

// Groups is the number of groups, for which members fold the parts once; 0: each member folds those of all.
func (p *Phase) Groups() int { return p.segment.Groups() }

// Group is the number of this member's group.
func (p *Phase) Group() int { return p.me / p.segment.group }

// Members are the members of a group: from first up to before end.
func (p *Phase) Members(group int) (first, end int) { return p.segment.Members(group) }

// LaySum lays the fold of the parts of a group for the other members; see Segment.LaySum.
func (p *Phase) LaySum(group int, fold []byte) { p.segment.LaySum(group, p.parts, fold) }

// Sum gives it, if a member has laid it, until this one brings its next part.
func (p *Phase) Sum(group int) (fold []byte, ok bool) { return p.segment.Sum(group, p.parts) }

// Lay lays the payload of the next step.
func (p *Phase) Lay(payload []byte) { p.segment.Lay(p.me, p.step+1, payload) }

// LayElsewhere is Lay of a payload that is too long.
func (p *Phase) LayElsewhere() { p.segment.layElsewhere(p.me, p.step+1) }

// Laid gives the payload of a member in this step, until the next one; see Segment.Laid.
func (p *Phase) Laid(member int) (payload []byte, length int, ok bool) {
	return p.segment.Laid(member, p.step)
}

// From is the member that has to come to the next step, in which a root lays a payload: the root, or
// everyone, so that buffers can be used again. It is the same for all members: they wake only their neighbours, which have
// to wait as well. A member that has brought a part to the last step waits for the one that collects, which comes when all
// have brought theirs.
func (p *Phase) From(root int) int {
	if p.parts < p.step && p.step+1-p.complete >= Buffers-1 {
		return Everyone
	}
	return root
}

// Enter enters the next step, to which a member has to come, or everyone.
func (p *Phase) Enter(from int) {
	p.step++
	p.from, p.groups, p.next = from, 0, 0
	p.other = -1
	if p.unsettled = from != Everyone; p.unsettled {
		p.segment.EnterUnsettled(p.me, p.step)
	} else {
		p.segment.Enter(p.me, p.step)
	}
}

// Here reports whether the members that have to come have.
func (p *Phase) Here() bool {
	if p.from != Everyone {
		return p.segment.HasLaid(p.from, p.step) || p.segment.Entered(p.from, p.step)
	}
	if len(p.segment.slots) > p.segment.group {
		return p.groupsHere()
	}
	for ; p.next < len(p.segment.slots); p.next++ {
		if !p.segment.Entered(p.next, p.step) {
			return false
		}
		p.see(p.next)
	}
	return true
}

// groupsHere is Here for everyone in several groups.
func (p *Phase) groupsHere() bool {
	for groups := p.segment.Groups(); p.groups < groups; p.groups, p.next = p.groups+1, 0 {
		group := p.group()
		if p.segment.GroupEntered(group, p.step) {
			continue
		}
		first, end := p.segment.Members(group)
		for ; first+p.next < end; p.next++ {
			if !p.segment.Entered(first+p.next, p.step) {
				return false
			}
			p.see(first + p.next)
		}
		p.segment.SayGroupEntered(group, p.step)
	}
	return true
}

// group is the group that is looked at. Members begin with their own.
func (p *Phase) group() int { return (p.Group() + p.groups) % max(1, p.segment.Groups()) }

// Last reports whether all members have come to this step, to which only others wait for everyone. Of the
// members that come the last one sees it, at least.
func (p *Phase) Last() bool {
	q := Phase{segment: p.segment, me: p.me, step: p.step, from: Everyone}
	return q.Here()
}

// Follow notes that everyone has come to the step before this one, if this member has brought a part to it: the member
// that collects the parts has waited for that, and has come to this step.
func (p *Phase) Follow() {
	if p.parts == p.step-1 {
		p.complete = max(p.complete, p.parts)
	}
}

// Awaited is a member that has to come and was not seen to have come.
func (p *Phase) Awaited() int {
	if p.from != Everyone {
		return p.from
	}
	first, end := p.segment.Members(p.group())
	return min(first+p.next, end-1)
}

// Apart reports whether a member has come to this step with a part that is too long.
func (p *Phase) Apart() bool { return p.segment.Apart(p.step) }

// Sight is the result of a member's look before it sleeps.
type Sight uint8

// The results of Doze.
const (
	// Nothing: the member may sleep; it is woken.
	Nothing Sight = iota
	// All members that have to come have.
	All
	// Apart: a member has come with a part that is too long.
	Apart
	// Missing: the process of a member has left in order without having come.
	Missing
)

// Nap announces that the member is about to sleep in this step. It calls Doze before it does.
func (p *Phase) Nap() { p.segment.Nap(p.me) }

// Doze looks once more: either the member that comes last, or a neighbour that will wake this one, sees
// that it naps, or this one sees here that all have come. Member is the one that is missing, also where
// the step does not need it, as it may be the neighbour that was to wake this one.
func (p *Phase) Doze() (s Sight, member int) {
	switch {
	case p.Here():
		return All, 0
	case p.parts == p.step && p.Apart():
		return Apart, 0
	}
	for member := range p.segment.slots {
		if p.segment.Missed(member, p.step) {
			return Missing, member
		}
	}
	return Nothing, 0
}

// End ends the step: the members that had to come have, or it is known that they will outside of the
// segment.
func (p *Phase) End() {
	if p.from == Everyone {
		p.complete = p.step
	}
}

// Naps reports whether a member sleeps in this step, so that it has to be woken if it is a neighbour. Of this member and
// one that goes to sleep, either this one sees the nap, or that one sees that this one has entered.
func (p *Phase) Naps(member int) bool {
	if p.unsettled {
		p.unsettled = false
		atomic.AddUint32(&p.settled, 1) // orders the entry before the look
	}
	return p.segment.Naps(member, p.step)
}
