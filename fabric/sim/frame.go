package sim

import (
	"math/bits"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// frameKind is the kind of an inbox entry.
type frameKind uint8

const (
	frameData      frameKind = iota
	frameDeparture           // the last of a departing sender; it travels like data
	frameDown                // evidence; queued where it becomes known
	frameMoved               // imm moves have ended; queued where they were started
	frameFetched             // a fetch has ended, imm is its token; queued where it was started
)

// frame is one frame from TrySend until its receiver's function has returned, or evidence of a
// peer's end. As an event it is its own arrival.
type frame struct {
	flow    *flow
	next    *frame // in the flow, then in the inbox, then in the pool
	imm     uint64
	payload []byte
	cause   proc.Cause // of frameDown
	err     error      // of frameFetched
	kind    frameKind
	class   fabric.Class
	lost    bool // its sender died, and it will not arrive; of frameMoved: the moves are lost
	passed  bool // it has reached the receiver's node and waits for its engine
}

// frameList is a queue of frames.
type frameList struct {
	first, last *frame
}

func (l *frameList) push(f *frame) {
	f.next = nil
	if l.first == nil {
		l.first = f
	} else {
		l.last.next = f
	}
	l.last = f
}

// pop removes the first frame, nil if there is none.
func (l *frameList) pop() *frame {
	f := l.first
	if f != nil {
		l.first = f.next
		f.next = nil
	}
	return f
}

// framePool keeps unused frames by the power of two of their payload, so that a running simulation
// allocates nothing per message.
type framePool [32]*frame

func (fp *framePool) get(size int) *frame {
	c := bits.Len(uint(max(size-1, 0)))
	f := fp[c]
	if f == nil {
		return &frame{payload: make([]byte, size, 1<<c)}
	}
	fp[c] = f.next
	f.next = nil
	f.payload = f.payload[:size]
	return f
}

func (fp *framePool) put(f *frame) {
	c := bits.Len(uint(cap(f.payload) - 1))
	*f = frame{payload: f.payload, next: fp[c]}
	fp[c] = f
}
