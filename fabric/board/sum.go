package board

// A ballot of many members has sections. A member that has seen all of its section post may lay a sum of their
// parts, and others need not look at the cells of that section. So many members look at a few lines each. The sum
// is only a shortcut: a section without one is looked at cell by cell, so a member that dies before it has laid
// the sum delays no other.
//
// A member lays a sum in a cell of its own and then names itself in the line of its section, unless another member
// has. So each part has one writer here too, and a member that others count as dead can change no sum of a later
// step.

// Section is the number of members that have a section together.
const Section = 16

// sectionsOf is the number of sections; one needs no sums.
func sectionsOf(members, section int) int {
	if members <= section {
		return 0
	}
	return (members + section - 1) / section
}

// sumCells is the number of cells for sums: of each member, and a line of each section, for even and for odd steps.
func sumCells(members, section int) int {
	if sections := sectionsOf(members, section); sections > 0 {
		return 2 * (members + sections)
	}
	return 0
}

// Section is the number of a member's section.
func (b *Ballot) Section(member int) int { return member / b.section }

func (b *Ballot) sumCell(member int, step uint32) *Cell { return &b.sums[int(step&1)*b.members+member] }

// sumLine is the line of a section. In place of a state its word has the member that has laid the sum, by its place
// in the section.
func (b *Ballot) sumLine(section int, step uint32) *Cell {
	return &b.sums[2*b.members+2*section+int(step&1)]
}

// LaySum lays the sum of the parts of a member's section in a step. It is for a member that has posted in that step,
// and has seen all of its section post. Precondition: len(sum) <= MaxPart.
func (b *Ballot) LaySum(member int, step uint32, sum []byte) {
	if len(b.sums) == 0 {
		return
	}
	line := b.sumLine(b.Section(member), step)
	w := line.word.Load()
	if b.read(w, step) != Empty {
		return
	}
	c := b.sumCell(member, step)
	c.length = uint8(copy(c.part[:], sum))
	c.word.Store(pack(b.generation, step, Posted))
	line.word.CompareAndSwap(w, pack(b.generation, step, Posted+State(member%b.section)))
}

// HasSum reports whether the sum of a section has been laid in a step: all of the section have posted.
func (b *Ballot) HasSum(section int, step uint32) bool {
	if len(b.sums) == 0 {
		return false
	}
	_, ok := b.author(section, step)
	return ok
}

// author is the member that has laid the sum of a section.
//
//banyan:decodes
func (b *Ballot) author(section int, step uint32) (member int, ok bool) {
	w := b.sumLine(section, step).word.Load()
	s := b.read(w, step)
	member = section*b.section + int(s-Posted)
	return member, s >= Posted && int(s-Posted) < b.section && member < b.members && w == pack(b.generation, step, s)
}

// Sum gives the sum of a section in a step, if it has been laid. As of Part, it means something if HasSum says
// afterwards that it has. It is not to be changed.
//
//banyan:decodes
func (b *Ballot) Sum(section int, step uint32) (sum []byte, ok bool) {
	if len(b.sums) == 0 {
		return nil, false
	}
	member, ok := b.author(section, step)
	if !ok {
		return nil, false
	}
	c := b.sumCell(member, step)
	return c.part[:min(c.length, MaxPart)], b.read(c.word.Load(), step) == Posted
}
