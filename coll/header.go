package coll

import (
	"encoding/binary"
	"fmt"

	"github.com/banyan-hpc/banyan/coll/sm"
	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/p2p"
)

// header is a length header: a message in place of a long one, whose data follow by another algorithm.
// Ranks with different lengths may select different algorithms. They detect that by the header, before
// they wait for each other. Data of the length of a header, 61 bytes, follow one too, so that no other
// message has the length of a header.
type header [headerLen]byte

const (
	sign      = "banyan: a long message follows in another way; bytes:"
	headerLen = len(sign) + 8
	// unitAt is the place of the length of elements in the number of a header: above the length of all of
	// them, in bits.
	unitAt = 56
)

// In shared memory headers have the length that package sm knows.
var _ = [1]struct{}{}[headerLen-sm.HeaderLen]

// set announces so many bytes. Unit is the length of the elements at whose boundaries they are split,
// or 0.
func (h *header) set(length, unit int) []byte {
	copy(h[:], sign)
	binary.LittleEndian.PutUint64(h[len(sign):], uint64(length)|uint64(unit)<<unitAt)
	return h[:]
}

// lengthIn is the length that a header announces.
func lengthIn(h []byte) int { return int(binary.LittleEndian.Uint64(h[len(sign):]) & (1<<unitAt - 1)) }

// isHeader reports whether a message in buf, of that length, is a header.
func isHeader(buf []byte, length int) bool {
	return length == headerLen && string(buf[:len(sign)]) == sign
}

// sameHeader folds headers: two that differ give none.
func sameHeader(acc, in []byte) {
	if string(acc) != string(in) {
		clear(acc)
	}
}

// fit checks the length of a message. A wrong one is ft.ErrArgument. Got is how much of the buffer is a
// message as it was sent.
func fit(w *p2p.Comm, st p2p.Status, err error, want int) (got int, _ error) {
	if err == nil && st.Count == want {
		return want, nil
	}
	got, length := st.Count, st.Count
	if total, long := p2p.Truncated(err); long {
		got, length = 0, total
	} else if err != nil {
		return 0, err
	}
	if length == want { // the buffer was that of a header, and shorter
		return got, disagreed(want)
	}
	return got, fmt.Errorf("%w: rank %d %s, this one wants %s: all ranks must call with the same length",
		ft.ErrArgument, w.OriginalRank(st.Source), lengthSent(length), lengthWanted(want))
}

// lengthSent describes the sender of a message of the wrong length.
func lengthSent(length int) string {
	if length == 0 {
		return "sent nothing, or met such an error itself"
	}
	return fmt.Sprintf("sent %d bytes", length)
}

// lengthWanted describes a length. No rank has called with that of a header.
func lengthWanted(length int) string {
	if length == headerLen {
		return "a long message"
	}
	return fmt.Sprintf("%d bytes", length)
}

// disagreed is the error of ranks that fold in parts and do not agree on the parts.
func disagreed(here int) error {
	return fmt.Errorf("%w: other ranks called with another length than %d bytes, or elements of another length: "+
		"all ranks must call with the same", ft.ErrArgument, here)
}

// mismatch is the error of lengths that do not fit.
func mismatch(length, want int) error {
	return fmt.Errorf("%w: a rank called with %d bytes, want %d: all ranks must call with the same length",
		ft.ErrArgument, length, want)
}
