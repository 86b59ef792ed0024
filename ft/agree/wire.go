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
	kindWake = 3 // look at the ballot
)

// Flags.
const (
	flagUniform  = 1 << iota // the proposal is a uniform one
	flagConfirm              // the second round of a uniform proposal
	flagMismatch             // not all contributed to the same operation
	flagYields               // a proposal yields
	flagRefused              // a member refuses to take part
	flagBallot               // all can use a ballot of the root; in a decision: it names one
	flagBinds                // decided from a ballot: no member has decided otherwise
	flagsAll     = 1<<iota - 1
	flagsPosted  = flagUniform | flagConfirm | flagYields // the flags of a posted part
)

// entry is a member that has ended.
type entry struct {
	rank     int32
	departed bool // it finalized; else it failed
	// common: all contributors so far knew of it when they contributed.
	common bool
}

// frame is a contribution or decision. In memory it is the union that an agreement has gathered.
type frame struct {
	kind  byte
	flags byte
	what  byte // Proposal.What
	key   GroupKey
	seq   uint32
	ended []entry // ascending, without those agreed on before
	// unacked are the ended members that some contributor knew and had not acknowledged; ascending.
	unacked ranks
	ballot  uint64 // a ballot's name, in a decision with flagBallot
	value   []byte
}

// ballotBytes is the length of a ballot's name.
const ballotBytes = 8

// headBytes: kind, flags, what, context, group, seq.
const headBytes = 3 + 4 + 4 + 4

// MaxFrame bounds the machine's frames in bytes. Ranks are encoded as distances, so that even if
// all processes have ended two bytes each are enough.
const MaxFrame = headBytes + 2*binary.MaxVarintLen32 + 2*proc.MaxIDs*2 + ballotBytes + MaxValue

var errFrame = errors.New("agree: corrupt frame")

var errNoMember = fmt.Errorf("%w: no member of the group", errFrame)

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

// namesBallot reports whether a frame names a ballot.
func (f *frame) namesBallot() bool { return f.kind == kindDown && f.flags&flagBallot != 0 }

// header reads the key and number of a frame's agreement.
func header(b []byte) (line GroupKey, seq uint32, err error) {
	var f frame
	err = f.decodeHeader(b)
	return f.key, f.seq, err
}

// decodeHeader decodes the beginning of a frame. It reads each byte once: the sender may share the
// memory and change it.
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

// decode decodes a frame of a group of that size into f, whose slices are reused; value is part of
// b.
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
			return fmt.Errorf("%w: %d bytes that name no ballot", errFrame, len(b))
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

// reader reads lists of ranks of a group of that size.
type reader struct {
	varint.Reader
	size int
}

// after returns the rank that follows last with a gap.
func (r *reader) after(last int, gap uint64) int {
	if gap >= uint64(r.size-last-1) {
		r.Bad = true
		return last
	}
	return last + 1 + int(gap)
}

// merge adds the contents of another frame, except the value.
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

// unite is the union of two ascending lists; common marks the entries that both have as common.
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
