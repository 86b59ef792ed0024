package drill

import (
	"encoding/binary"
	"fmt"
)

// note is what an agreement or a shrink came to at one rank: survivors must have the same notes. Ranks are
// bits, by their number in the world.
type note struct {
	kind   Kind
	number int    // of the agreement or shrink, in this rank's program
	value  uint64 // what was agreed; the members of what was made
	failed uint64 // whom the error names, if there is one
}

// String names it.
func (n note) String() string {
	return fmt.Sprintf("%v %d gave %#x, failed %#x", n.kind, n.number, n.value, n.failed)
}

// note adds a note of a rank. What does not fit is not compared.
func (t *trace) note(rank int, n note) {
	count := t.count(rank, notesAt)
	if count == maxNotes {
		return
	}
	at := notesAt + 1 + count*noteWords
	binary.LittleEndian.PutUint32(t.word(rank, at), uint32(n.kind))
	binary.LittleEndian.PutUint32(t.word(rank, at+1), uint32(n.number))
	for i, half := range []uint64{n.value, n.value >> 32, n.failed, n.failed >> 32} {
		binary.LittleEndian.PutUint32(t.word(rank, at+2+i), uint32(half))
	}
	t.bump(rank, notesAt, 1)
}

// notes gives those of a rank.
func (t *trace) notes(rank int) []note {
	out := make([]note, t.count(rank, notesAt))
	for i := range out {
		at := notesAt + 1 + i*noteWords
		half := func(k int) uint64 { return uint64(uint32(t.count(rank, at+k))) }
		out[i] = note{
			kind: Kind(half(0)), number: int(half(1)),
			value: half(2) | half(3)<<32, failed: half(4) | half(5)<<32,
		}
	}
	return out
}

// compare finds out whether ranks have come to the same.
func (t *trace) compare(ranks []int) error {
	var first []note
	for i, rank := range ranks {
		notes := t.notes(rank)
		if i == 0 {
			first = notes
		}
		if len(notes) != len(first) {
			return fmt.Errorf("rank %d has come to %d agreements and shrinks, rank %d to %d", rank, len(notes), ranks[0], len(first))
		}
		for k, n := range notes {
			if n != first[k] {
				return fmt.Errorf("rank %d: %v; rank %d: %v", rank, n, ranks[0], first[k])
			}
		}
	}
	return nil
}
