package rma

import (
	"encoding/binary"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/progress"
)

const (
	// maxOpen bounds the frames that ask and have no answer yet, for each target; more wait here.
	maxOpen = 1024
	// maxReplies bounds the answers that wait for a peer's credit: a peer that keeps to maxOpen has
	// fewer.
	maxReplies = 2 * maxOpen
	// maxFrame bounds frames, so that others get their turn.
	maxFrame = 64 << 10
)

// item is an operation or answer that is being sent, in as many frames as it takes.
type item struct {
	kind  kind
	token uint32
	head  head
	data  []byte
	n     uint64 // bytes of data, or wanted by a get
	done  uint64 // bytes sent
	move  uint64 // the number of a move; 0: frames
	piece *piece // of the target, for a move
}

// pump sends the waiting items, and returns the number of frames. Precondition: the lock is held.
func (t *target) pump() (sent int) {
	if t.ended || t.stalled {
		return 0
	}
	if t.ep == nil {
		t.ep = t.w.s.e.Lookup(t.id)
	}
	if t.ep == nil || t.ep.State != progress.Alive {
		return 0
	}
	for len(t.replies) > 0 {
		n, all := t.send(&t.replies[0])
		sent += n
		if !all {
			return sent
		}
		t.replies = pop(t.replies)
	}
	for len(t.out) > 0 {
		next := t.send
		switch it := &t.out[0]; {
		case it.move > 0:
			next = t.move
		case t.underWay > 0 && it.follows():
			return sent
		}
		n, all := next(&t.out[0])
		sent += n
		if !all {
			return sent
		}
		t.out = pop(t.out)
	}
	return sent
}

// follows reports whether a frame says that operations before it are complete.
func (it *item) follows() bool {
	return it.kind == kindFlush || it.kind == kindUnlock || it.kind == kindComplete || it.head.notice > 0
}

// writes reports whether an item's frames write to the memory of the target.
func (it *item) writes() bool {
	return it.kind == kindPut || it.kind == kindAcc || it.kind == kindGetAcc
}

// pop drops the first of a queue, and keeps its memory when it is empty.
func pop(q []item) []item {
	q[0] = item{}
	if len(q) == 1 {
		return q[:0]
	}
	return q[1:]
}

// send sends the remaining frames of an item. Without credit the target is stalled; with too many answers
// missing the next answer continues.
func (t *target) send(it *item) (sent int, all bool) {
	s := t.w.s
	room := uint64(min(t.ep.MaxFrame, maxFrame)-headBytes) &^ 15
	imm := t.immediate(it.kind, it.token)
	several := t.w.dynamic && it.writes() && it.n > room
	if several {
		room -= partBytes
	}
	for {
		if it.kind.asks() && t.open >= maxOpen {
			return sent, false
		}
		h, n := it.head, min(it.n-it.done, room)
		if h.at += it.done; it.kind != kindPut {
			h.off += it.done
		}
		s.frame = append(s.frame[:0], make([]byte, headBytes)...)
		if several {
			h.flags |= inParts
			s.frame = binary.LittleEndian.AppendUint64(s.frame, it.head.at)
			s.frame = binary.LittleEndian.AppendUint64(s.frame, it.n)
		}
		switch {
		case it.kind == kindGet:
			n = it.n
			s.frame = binary.LittleEndian.AppendUint64(s.frame, n)
		case it.data != nil:
			s.frame = append(s.frame, it.data[it.done:it.done+n]...)
		}
		if it.done+n == it.n {
			h.flags |= lastChunk
		}
		h.encode(s.frame)
		if !t.ep.TrySend(fabric.ClassRMA, imm, s.frame) {
			t.stall()
			return sent, false
		}
		sent++
		if it.kind.asks() {
			t.open++
		}
		if it.done += n; it.done >= it.n {
			return sent, true
		}
	}
}

// immediate is that of a frame to the target.
func (t *target) immediate(k kind, token uint32) uint64 {
	return uint64(t.w.ctx)<<32 | uint64(k)<<24 | uint64(t.w.gen)<<tokenBits | uint64(token)
}

// newFrame gives a frame without data. It is borrowed until the next frame.
func (t *target) newFrame(h *head) []byte {
	s := t.w.s
	s.frame = append(s.frame[:0], make([]byte, headBytes)...)
	h.encode(s.frame)
	return s.frame
}

// stall has the target continue when its connection may have room.
func (t *target) stall() {
	t.stalled = true
	t.w.s.stalled = append(t.w.s.stalled, t)
}

// tell sends a frame without data. Precondition: the lock is held.
func (t *target) tell(k kind, at uint64) {
	if t.ended {
		return
	}
	if it := (item{kind: k, head: head{at: at}}); k.answers() {
		t.replies = append(t.replies, it)
	} else {
		t.out = append(t.out, it)
	}
	t.pump()
}

// flush starts a flush and gives its number.
func (t *target) flush() uint64 {
	t.dirty = false
	t.busy.Store(true)
	t.sent++
	t.tell(kindFlush, 0)
	return t.sent
}

// drop forgets all that is under way with the rank.
func (t *target) drop() {
	t.out, t.replies, t.open, t.waiting = nil, nil, 0, 0
	t.sent, t.acked = 0, 0
	t.notified, t.noticed, t.asking = 0, 0, false
	t.account()
	if t.lock.direct && (t.held || t.lock.releaseAt != 0) {
		t.lock.Release(t.w.rank)
		t.lock.releaseAt = 0
	}
	t.givenBack()
	t.held, t.granted, t.dirty = false, false, false
	t.w.forget(t)
	t.busy.Store(false)
	t.refused, t.refusing = false, false
	t.posted, t.completed, t.access, t.exposed = 0, 0, false, false
}
