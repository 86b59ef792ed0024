package agree

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/varint"
)

// Kinds of frames; the first byte of each.
const (
	kindUp   = 1 // a contribution
	kindDown = 2 // a decision
	kindWake = 3 // look at the board
)

// Flags.
const (
	flagUniform  = 1 << iota // the proposal is a uniform one
	flagConfirm              // the second round of a uniform proposal
	flagMismatch             // not all contributed to the same operation
	flagYields               // somebody's proposal yields
	flagRefused              // somebody refuses to take part
	flagBallot               // all can use a board of the root; of a decision: here is one
	flagBinds                // decided from a board: nobody will decide anything else, the dead included
	flagsAll     = 1<<iota - 1
	flagsPosted  = flagUniform | flagConfirm | flagYields // those that a posted part has
)

// entry is a member that is gone.
type entry struct {
	rank     int32
	departed bool // it has not failed
	// common: all who have contributed so far knew of it when they did.
	common bool
}

// frame is a contribution or decision. In memory it is what an agreement has gathered.
type frame struct {
	kind  byte
	flags byte
	what  byte // the caller's name of the operation
	key   GroupKey
	seq   uint32
	ended []entry // ascending; those that are not in base
	// unacked are the gone that somebody has not acknowledged, of those that it knew;
	// ascending.
	unacked ranks
	ballot  uint64 // the name of one; of a decision with flagBoard
	value   []byte
}

// ballotBytes is the length of a board's name.
const ballotBytes = 8

// headBytes: kind, flags, what, context, group, seq.
const headBytes = 3 + 4 + 4 + 4

// MaxFrame bounds what the machine sends, in bytes: of as many processes as there can be
// hardly ever all have ended, and their ranks are told by their distances.
const MaxFrame = headBytes + 2*binary.MaxVarintLen32 + 2*proc.MaxIDs*2 + ballotBytes + MaxValue

var errFrame = errors.New("agree: corrupt frame")

// encode appends a frame to b.
func (f *frame) encode(b []byte) []byte {
	b = append(b, f.kind, f.flags, f.what)
	b = binary.LittleEndian.AppendUint32(b, f.key.Context)
	b = binary.LittleEndian.AppendUint32(b, f.key.Group)
	b = binary.LittleEndian.AppendUint32(b, f.seq)
	b = binary.AppendUvarint(b, uint64(len(f.ended)))
	last := int32(-1)
	for _, e := range f.ended {
		word := uint64(e.rank-last-1) << 2
		if e.departed {
			word |= 1
		}
		if e.common {
			word |= 2
		}
		b, last = binary.AppendUvarint(b, word), e.rank
	}
	b = binary.AppendUvarint(b, uint64(len(f.unacked)))
	last = -1
	for _, rank := range f.unacked {
		b, last = binary.AppendUvarint(b, uint64(rank-last-1)), rank
	}
	if f.namesBallot() {
		b = binary.LittleEndian.AppendUint64(b, f.ballot)
	}
	return append(b, f.value...)
}

// namesBallot reports whether a frame names a board.
func (f *frame) namesBallot() bool { return f.kind == kindDown && f.flags&flagBallot != 0 }

// header reads which agreement a frame belongs to.
func header(b []byte) (line GroupKey, seq uint32, err error) {
	var f frame
	err = f.decodeHeader(b)
	return f.key, f.seq, err
}

// decodeHeader decodes the beginning of a frame, each byte of which it reads once: the sender may share the memory and
// change it.
func (f *frame) decodeHeader(b []byte) error {
	if len(b) < headBytes+2 {
		return fmt.Errorf("%w: %d bytes", errFrame, len(b))
	}
	f.kind, f.flags, f.what = b[0], b[1], b[2]
	f.key = GroupKey{Context: binary.LittleEndian.Uint32(b[3:]), Group: binary.LittleEndian.Uint32(b[7:])}
	f.seq = binary.LittleEndian.Uint32(b[11:])
	if f.kind < kindUp || f.kind > kindWake || f.flags&^flagsAll != 0 {
		return fmt.Errorf("%w: kind %d, flags %#x", errFrame, f.kind, f.flags)
	}
	return nil
}

// decode takes a frame of a group of that size apart into f, whose slices are used
// again; value is part of b.
func (f *frame) decode(b []byte, size int) error {
	*f = frame{ended: f.ended[:0], unacked: f.unacked[:0]}
	if err := f.decodeHeader(b); err != nil {
		return err
	}
	r := reader{varint.Reader{Rest: b[headBytes:]}, size}
	last := -1
	for n := r.UpTo(size); n > 0 && !r.Bad; n-- {
		word := r.Uint()
		last = r.after(last, word>>2)
		f.ended = append(f.ended, entry{rank: int32(last), departed: word&1 != 0, common: word&2 != 0})
	}
	last = -1
	for n := r.UpTo(size); n > 0 && !r.Bad; n-- {
		last = r.after(last, r.Uint())
		f.unacked = append(f.unacked, int32(last))
	}
	if f.namesBallot() {
		if len(r.Rest) < ballotBytes {
			return fmt.Errorf("%w: %d bytes that name no board", errFrame, len(b))
		}
		f.ballot = binary.LittleEndian.Uint64(r.Rest)
		r.Rest = r.Rest[ballotBytes:]
	}
	f.value = r.Rest
	if r.Bad || len(f.value) > MaxValue {
		return fmt.Errorf("%w: %d bytes for a group of %d", errFrame, len(b), size)
	}
	return nil
}

// reader reads a frame's lists of ranks of a group of that size.
type reader struct {
	varint.Reader
	size int
}

// after is the rank that stands gap places behind the next.
func (r *reader) after(last int, gap uint64) int {
	if gap >= uint64(r.size-last-1) {
		r.Bad = true
		return last
	}
	return last + 1 + int(gap)
}

// merge folds what another has gathered into f: the values apart.
func (f *frame) merge(o *frame) {
	f.flags |= o.flags & (flagMismatch | flagYields | flagRefused)
	f.flags &= o.flags | ^byte(flagBallot)
	if o.what != f.what || (o.flags^f.flags)&(flagUniform|flagConfirm) != 0 || len(o.value) != len(f.value) {
		f.flags |= flagMismatch
	}
	if len(f.ended)+len(o.ended) > 0 {
		f.ended = unite(f.ended, o.ended)
	}
	for _, rank := range o.unacked {
		f.unacked.add(int(rank))
	}
}

// unite is the union of two ascending lists; common are those that are so in both.
func unite(a, b []entry) []entry {
	out := make([]entry, 0, max(len(a), len(b)))
	for len(a) > 0 || len(b) > 0 {
		switch {
		case len(b) == 0 || len(a) > 0 && a[0].rank < b[0].rank:
			out, a = append(out, entry{a[0].rank, a[0].departed, false}), a[1:]
		case len(a) == 0 || b[0].rank < a[0].rank:
			out, b = append(out, entry{b[0].rank, b[0].departed, false}), b[1:]
		default:
			out = append(out, entry{a[0].rank, a[0].departed || b[0].departed, a[0].common && b[0].common})
			a, b = a[1:], b[1:]
		}
	}
	return slices.Clip(out)
}
