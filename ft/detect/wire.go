package detect

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/varint"
)

// The kinds of frames; the first byte of each.
const (
	kindHeartbeat = 1 // flags
	kindUpdate    = 2 // flags, from, n, n entries
	kindAck       = 3 // from, to
	kindQuery     = 4 // round, n, n ids in ascending order
	kindReply     = 5 // round
	kindPing      = 6 // nothing
	kindPingAck   = 7 // nothing
	kindAlive     = 8 // one id
)

// Flags.
const (
	flagFar    = 1 // Heartbeat: the receiver is the far observer
	flagAgain  = 1 // Update: sent before, and not acknowledged
	flagDirect = 2 // Update: not part of the stream; from is 0, no Ack
)

const (
	maxEntries = 128 // of one Update
	maxNames   = 32  // of one Query
	// MaxPayload bounds the machine's frames in bytes: an Update of 128 entries of at most 9 bytes
	// each.
	MaxPayload = 2 + 3 + 2 + maxEntries*9
)

// entry is a known end: of id, by cause, learned from by (None: from no process).
type entry struct {
	id     proc.ID
	cause  proc.Cause
	by     proc.ID
	proven bool // by more than silence, or departed: no longer counted
}

// frame is a decoded frame.
type frame struct {
	kind     byte
	flags    byte
	from, to int    // positions in the sender's log (Update), the receiver's (Ack)
	round    uint64 // of Query and Reply
	entries  []entry
	ids      []proc.ID
}

var errFrame = errors.New("detect: corrupt frame")

// decode decodes a frame into f, whose slices are reused. It refuses everything that a correct
// process does not encode: other kinds and flags, varints that are too long, ids outside the job,
// repetitions, trailing bytes.
func (f *frame) decode(b []byte, procs int) error {
	if len(b) == 0 {
		return fmt.Errorf("%w: empty", errFrame)
	}
	*f = frame{kind: b[0], entries: f.entries[:0], ids: f.ids[:0]}
	r := reader{varint.Reader{Rest: b[1:]}, procs}
	switch f.kind {
	case kindHeartbeat:
		f.flags = r.flags(flagFar)
	case kindUpdate:
		f.decodeUpdate(&r)
	case kindAck:
		f.from, f.to = r.UpTo(procs), r.UpTo(procs)
		r.Fail(f.to <= f.from)
	case kindQuery:
		f.round = r.Uint()
		for n := r.count(maxNames); n > 0 && !r.Bad; n-- {
			f.ids = append(f.ids, r.id())
			k := len(f.ids)
			r.Fail(k > 1 && f.ids[k-1] <= f.ids[k-2])
		}
	case kindReply:
		f.round = r.Uint()
	case kindAlive:
		f.ids = append(f.ids, r.id())
	case kindPing, kindPingAck:
	default:
		return fmt.Errorf("%w: kind %d", errFrame, f.kind)
	}
	if r.Bad || len(r.Rest) > 0 {
		return fmt.Errorf("%w: kind %d of %d bytes", errFrame, f.kind, len(b))
	}
	return nil
}

func (f *frame) decodeUpdate(r *reader) {
	f.flags = r.flags(flagAgain | flagDirect)
	f.from = r.UpTo(r.procs)
	r.Fail(f.flags == flagAgain|flagDirect || f.flags == flagDirect && f.from != 0)
	for n := r.count(maxEntries); n > 0 && !r.Bad; n-- {
		e := entry{id: r.id(), cause: r.cause()}
		for _, o := range f.entries {
			r.Fail(o.id == e.id)
		}
		f.entries = append(f.entries, e)
	}
	f.to = f.from + len(f.entries)
	r.Fail(f.to > r.procs)
}

// mentions reports whether a frame names a process.
func (f *frame) mentions(id proc.ID) bool {
	return slices.Contains(f.ids, id) || slices.ContainsFunc(f.entries, func(e entry) bool { return e.id == id })
}

// hasCode reports whether a cause has a code.
func hasCode(k proc.Kind) bool {
	return k == proc.Exited || k == proc.Signaled
}

// reader reads the fields of a frame.
type reader struct {
	varint.Reader
	procs int
}

func (r *reader) flags(allowed byte) byte {
	c := r.Byte()
	r.Fail(c&^allowed != 0)
	return c
}

func (r *reader) count(limit int) int {
	n := r.UpTo(limit)
	r.Fail(n == 0)
	return n
}

func (r *reader) id() proc.ID { return proc.ID(r.UpTo(r.procs - 1)) }

func (r *reader) cause() proc.Cause {
	c := proc.Cause{Kind: proc.Kind(r.Byte())}
	r.Fail(c.Kind >= proc.Unreachable)
	if hasCode(c.Kind) {
		z := r.UpTo(math.MaxUint32)
		c.Code = int32(uint32(z)>>1) ^ -int32(z&1)
	}
	return c
}

// appendUpdate encodes entries; from is their position in the sender's log.
func appendUpdate(b []byte, flags byte, from int, entries []entry) []byte {
	b = append(b, kindUpdate, flags)
	b = binary.AppendUvarint(b, uint64(from))
	b = binary.AppendUvarint(b, uint64(len(entries)))
	for _, e := range entries {
		b = binary.AppendUvarint(b, uint64(e.id))
		b = append(b, byte(e.cause.Kind))
		if hasCode(e.cause.Kind) {
			b = binary.AppendUvarint(b, uint64(uint32(e.cause.Code<<1)^uint32(e.cause.Code>>31)))
		}
	}
	return b
}

func appendAck(b []byte, from, to int) []byte {
	b = binary.AppendUvarint(append(b, kindAck), uint64(from))
	return binary.AppendUvarint(b, uint64(to))
}

func appendQuery(b []byte, round uint64, ids []proc.ID) []byte {
	b = binary.AppendUvarint(append(b, kindQuery), round)
	b = binary.AppendUvarint(b, uint64(len(ids)))
	for _, id := range ids {
		b = binary.AppendUvarint(b, uint64(id))
	}
	return b
}

func appendReply(b []byte, round uint64) []byte {
	return binary.AppendUvarint(append(b, kindReply), round)
}

func appendAlive(b []byte, id proc.ID) []byte {
	return binary.AppendUvarint(append(b, kindAlive), uint64(id))
}

// Constant frames.
var (
	heartbeatFrame    = []byte{kindHeartbeat, 0}
	farHeartbeatFrame = []byte{kindHeartbeat, flagFar}
	pingFrame         = []byte{kindPing}
	pingAckFrame      = []byte{kindPingAck}
)
