package coll

import (
	"encoding/binary"
	"fmt"

	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/p2p"
)

// mark is a message in place of a long one, whose data follow in another way. So ranks that do not agree on the length, and
// would not agree on the way either, learn of it before they wait for each other. Data of its length, 61 bytes, follow a mark
// too: so where a mark may come nothing else is as long.
type mark [len(sign) + 8]byte

const sign = "banyan: a long message follows in another way; bytes:"

// unitAt is where a mark has the length of elements: above that of all of them, in bits.
const unitAt = 56

// set makes it stand for so many bytes; unit is the length of the elements by which they are parted, or 0.
func (m *mark) set(length, unit int) []byte {
	copy(m[:], sign)
	binary.LittleEndian.PutUint64(m[len(sign):], uint64(length)|uint64(unit)<<unitAt)
	return m[:]
}

// marked is the length that a mark stands for.
func marked(m []byte) int { return int(binary.LittleEndian.Uint64(m[len(sign):]) & (1<<unitAt - 1)) }

// shows reports whether a message that has come into buf, and was so long, is a mark.
func shows(buf []byte, length int) bool {
	return length == len(mark{}) && string(buf[:len(sign)]) == sign
}

// disagreed is the error of ranks that fold in parts and do not agree on what.
func disagreed(w *p2p.Comm, here int) error {
	return fmt.Errorf("%s: %w: other ranks called with another length than %d bytes, or elements of another length: all ranks must call with the same",
		w.Name(), ft.ErrArgument, here)
}

// mismatch is the error of lengths that do not fit.
func mismatch(w *p2p.Comm, length, want int) error {
	return fmt.Errorf("%s: %w: a rank called with %d bytes, want %d: all ranks must call with the same length",
		w.Name(), ft.ErrArgument, length, want)
}
