package corrected

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// kind is the kind of a frame.
type kind uint8

const (
	kindUp      kind = iota + 1 // a contribution
	kindDown                    // the outcome
	kindOffer                   // its sender has the outcome, which is long
	kindWant                    // its sender wants the outcome
	kindDiffers                 // its sender has called another operation
	kindAsk                     // whether its receiver will call the operation
	kindQuit                    // its sender will not
)

// Flags.
const (
	flagBarrier = 1 << iota // the operation is a barrier
	flagHave                // kindUp: its sender has an outcome
	flagLost                // the outcome is that the value is lost
	flagRight               // a correction in the direction of higher places
	flagLeft                // … of lower places
	flagsAll    = 1<<iota - 1
)

// frame is a frame in memory.
type frame struct {
	kind   kind
	flags  uint8
	number uint32
	root   int // a rank
	epoch  int // a place
	value  []byte
}

// HeadBytes is the length of a frame without a value: context, kind, flags, number, root, epoch.
const HeadBytes = 4 + 2 + 4 + 4 + 4

// MaxFrame bounds frames, in bytes.
const MaxFrame = HeadBytes + MaxValue

// ErrFrame is the class of errors about frames that no correct machine sends.
var ErrFrame = errors.New("corrected: corrupt frame")

func (f *frame) encode(context uint32) []byte {
	b := make([]byte, 0, HeadBytes+len(f.value))
	b = append(binary.LittleEndian.AppendUint32(b, context), byte(f.kind), f.flags)
	b = binary.LittleEndian.AppendUint32(b, f.number)
	b = binary.LittleEndian.AppendUint32(b, uint32(f.root))
	b = binary.LittleEndian.AppendUint32(b, uint32(f.epoch))
	return append(b, f.value...)
}

// Context gives the context of a frame.
func Context(b []byte) (context uint32, ok bool) {
	if len(b) < HeadBytes {
		return 0, false
	}
	return binary.LittleEndian.Uint32(b), true
}

// decode decodes a frame among n ranks. Value is part of b.
func (f *frame) decode(b []byte, n int) error {
	if len(b) < HeadBytes || len(b) > MaxFrame {
		return fmt.Errorf("%w: %d bytes", ErrFrame, len(b))
	}
	root, epoch := binary.LittleEndian.Uint32(b[10:]), binary.LittleEndian.Uint32(b[14:])
	*f = frame{kind: kind(b[4]), flags: b[5], number: binary.LittleEndian.Uint32(b[6:]), value: b[HeadBytes:]}
	if f.kind < kindUp || f.kind > kindQuit || f.flags&^flagsAll != 0 ||
		uint64(root) >= uint64(n) || uint64(epoch) >= uint64(n) {
		return fmt.Errorf("%w: kind %d, flags %#x, operation %d, root %d, epoch %d of %d ranks",
			ErrFrame, f.kind, f.flags, f.number, root, epoch, n)
	}
	f.root, f.epoch = int(root), int(epoch)
	return nil
}
