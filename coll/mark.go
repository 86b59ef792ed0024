package coll

import (
	"encoding/binary"
	"fmt"

	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/p2p"
)

// mark is a message in place of a long one, whose data follow in another way. So ranks that do not agree on the length, and
// would not agree on the way either, learn of it before they wait for each other. Its length, 61 bytes, is one that hardly any data have,
// and its text one that none have.
type mark [len(sign) + 8]byte

const sign = "banyan: a long message follows in another way; bytes:"

// set makes it stand for so many bytes.
func (m *mark) set(length int) []byte {
	copy(m[:], sign)
	binary.LittleEndian.PutUint64(m[len(sign):], uint64(length))
	return m[:]
}

func (m *mark) length() int { return int(binary.LittleEndian.Uint64(m[len(sign):])) }

// shows reports whether a message that has come into buf, and was so long, is a mark.
func shows(buf []byte, length int) bool {
	return length == len(mark{}) && string(buf[:len(sign)]) == sign
}

// unknown is the length of others that are known to have come with another one, not with which.
const unknown = -1

// mismatch is the error of lengths that do not fit.
func mismatch(w *p2p.Comm, length, want int) error {
	if length == unknown {
		return fmt.Errorf("%s: %w: not all ranks called with %d bytes, as this one: all must call with the same length",
			w.Name(), ft.ErrArgument, want)
	}
	return fmt.Errorf("%s: %w: a rank called with %d bytes, want %d: all ranks must call with the same length",
		w.Name(), ft.ErrArgument, length, want)
}
