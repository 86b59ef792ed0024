package board

import (
	"fmt"
	"sync/atomic"
)

// MaxPart is the longest part, in bytes.
const MaxPart = 55

// Cell is a member's place for a step. Memory of zeros is a cell of no generation.
type Cell struct {
	// word: generation, step and state. It is stored after the part has been written.
	word   atomic.Uint64
	length uint8
	part   [MaxPart]byte
}

// State is the state of a cell in a step.
type State uint8

// The states of a cell.
const (
	// Empty: its member has not come so far.
	Empty State = iota
	// Posted: its part can be read.
	Posted
	// Closed: its member will never post in this step.
	Closed
	// Lost: the cell is beyond this step.
	Lost
)

// Ballot is a process's hold on the cells of a group. It is not safe for concurrent use in one process; other
// processes use the same cells at the same time.
type Ballot struct {
	cells      []Cell
	sums       []Cell // of a ballot of several sections: see sum.go
	members    int
	section    int // the members of a section
	generation uint64
}

// CellsOf is the number of cells that a ballot of so many members in such sections needs.
func CellsOf(members, section int) int { return rows*members + sumCells(members, section) }

// rows: the cells of even and of odd steps, and one for naps.
const (
	rows   = 3
	napRow = 2
)

// MaxGeneration bounds generations, which are at least 1.
const MaxGeneration = 1<<24 - 1

const (
	stateBits = 8
	stepBits  = 32
)

func pack(generation uint64, step uint32, s State) uint64 {
	return generation<<(stepBits+stateBits) | uint64(step)<<stateBits | uint64(s)
}

// Format prepares cells for a new group whose next step has that number. No process uses them, or
// they are used with another generation. It is for the process that owns the memory.
//
// Preconditions: len(cells) == CellsOf(members, section), 0 < generation <= MaxGeneration.
func Format(cells []Cell, generation uint32, next uint32) {
	for i := range cells {
		cells[i].word.Store(pack(uint64(generation), next-rows, Empty))
	}
}

// Use gives a hold on cells that have been formatted. Preconditions as of Format.
func Use(cells []Cell, members, section int, generation uint32) *Ballot {
	return &Ballot{
		cells: cells[:rows*members], sums: cells[rows*members:],
		members: members, section: section, generation: uint64(generation),
	}
}

func (b *Ballot) cell(member int, step uint32) *Cell {
	return &b.cells[int(step&1)*b.members+member]
}

// read gives the state that a word means for a step.
func (b *Ballot) read(w uint64, step uint32) State {
	if w>>(stepBits+stateBits) != b.generation {
		return Lost
	}
	switch ahead := int32(uint32(w>>stateBits) - step); { // numbers wrap around
	case ahead < 0:
		return Empty
	case ahead > 0:
		return Lost
	}
	return State(w & (1<<stateBits - 1))
}

// Post publishes a member's part in a step, and gives the new state of the cell: Posted, or Closed or Lost if
// another process was first. It is for that member. Precondition: len(part) <= MaxPart.
func (b *Ballot) Post(member int, step uint32, part []byte) State {
	c := b.cell(member, step)
	w := c.word.Load()
	if s := b.read(w, step); s != Empty {
		return s
	}
	c.length = uint8(copy(c.part[:], part))
	return b.turn(c, w, step, Posted)
}

// Close closes a member's cell for a step, unless it has posted, and returns the cell's state.
func (b *Ballot) Close(member int, step uint32) State {
	c := b.cell(member, step)
	w := c.word.Load()
	if s := b.read(w, step); s != Empty {
		return s
	}
	return b.turn(c, w, step, Closed)
}

// turn changes a cell that was empty, unless another is faster.
func (b *Ballot) turn(c *Cell, was uint64, step uint32, to State) State {
	if c.word.CompareAndSwap(was, pack(b.generation, step, to)) {
		return to
	}
	return b.read(c.word.Load(), step)
}

// Look gives the state of a member's cell for a step.
func (b *Ballot) Look(member int, step uint32) State {
	return b.read(b.cell(member, step).word.Load(), step)
}

// Part is a member's part in a step, as the memory has it now: it means something if Look says Posted
// before and afterwards. It is not to be changed.
//
//banyan:decodes
func (b *Ballot) Part(member int, step uint32) []byte {
	c := b.cell(member, step)
	return c.part[:min(c.length, MaxPart)]
}

// Nap says that a member is about to sleep in a step. It looks at the cells once more before it
// does.
func (b *Ballot) Nap(member int, step uint32) {
	b.cells[napRow*b.members+member].word.Store(pack(b.generation, step, Posted))
}

// Naps reports whether a member has said so.
func (b *Ballot) Naps(member int, step uint32) bool {
	return b.read(b.cells[napRow*b.members+member].word.Load(), step) == Posted
}

// Copy gives cells that say the same. It is for the exploration of their states.
func Copy(cells []Cell) []Cell {
	out := make([]Cell, len(cells))
	for i := range cells {
		out[i].word.Store(cells[i].word.Load())
		out[i].length, out[i].part = cells[i].length, cells[i].part
	}
	return out
}

// Dump gives the contents of cells, as text.
func Dump(cells []Cell) string {
	out := make([]byte, 0, 16*len(cells))
	for i := range cells {
		out = fmt.Appendf(out, "%x:%x ", cells[i].word.Load(), cells[i].part[:min(cells[i].length, MaxPart)])
	}
	return string(out)
}
