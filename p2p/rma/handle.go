package rma

import (
	"encoding/binary"
	"fmt"

	"github.com/banyan-hpc/banyan/ft"
)

// serve applies a request of a rank to this rank's memory. Precondition: the lock is held.
func (t *target) serve(k kind, token uint32, h *head, data []byte) {
	w := t.w
	switch k {
	case kindPut:
		t.put(h, data)
	case kindGet:
		var mem []byte
		ok := len(data) == 8
		if ok {
			mem, ok = w.memory(h.at, binary.LittleEndian.Uint64(data))
		}
		if !ok {
			t.reply(kindRefused, token, h, nil)
			return
		}
		t.reply(kindOld, token, h, mem)
	case kindAcc, kindGetAcc, kindCas:
		t.update(k, token, h, data)
	case kindFlush:
		t.tellFlushed()
	case kindLock:
		t.askedFor(LockKind(h.at))
	case kindUnlock:
		t.givenBack()
		t.tellFlushed()
		w.rouse()
	case kindRouse:
		w.rouse()
	case kindWake:
		w.lookAtLocks()
	case kindWhere:
		t.tellWhere(h.at)
	case kindPost:
		t.posted++
		w.wake()
	case kindComplete:
		t.completed++
		w.wake()
	}
}

// whole gives the data of a frame that writes, and reports whether this rank has all the memory of its operation: one
// on memory of a dynamic window is done in all frames or in none.
func (w *Window) whole(h *head, data []byte) ([]byte, bool) {
	if h.flags&inParts == 0 {
		return data, true
	}
	if len(data) < partBytes {
		return nil, false
	}
	_, ok := w.memory(binary.LittleEndian.Uint64(data), binary.LittleEndian.Uint64(data[8:]))
	return data[partBytes:], ok
}

// put does a part of a put, unless it has been done: a move that was lost, and a notice behind it was not.
func (t *target) put(h *head, data []byte) {
	if t.noticed > h.off {
		return
	}
	data, whole := t.w.whole(h, data)
	mem, ok := t.w.memory(h.at, uint64(len(data)))
	if !ok || !whole {
		t.refusing = true
		return
	}
	copy(mem, data)
	if h.flags&lastChunk != 0 && h.notice > 0 {
		t.noticed = h.off + 1
		t.w.notify(h.notice)
	}
}

// update does an accumulate of any kind.
func (t *target) update(k kind, token uint32, h *head, data []byte) {
	data, whole := t.w.whole(h, data)
	w, n, size := t.w, uint64(len(data)), uint64(h.elem.size())
	if k == kindCas {
		n /= 2
	}
	at, ok := w.memory(h.at, n)
	if !ok || !whole || size == 0 || n%size != 0 || h.at%size != 0 || !h.acc.applies(h.elem) ||
		k == kindCas && uint64(len(data)) != 2*size {
		if t.refusing = t.refusing || k == kindAcc; k != kindAcc {
			t.reply(kindRefused, token, h, nil)
		}
		return
	}
	var old []byte
	if k != kindAcc {
		old = make([]byte, n)
	}
	if k == kindCas {
		compareAndSwap(w.remote(), at, data[:n], data[n:], old)
	} else {
		accumulate(w.remote(), h.acc, h.elem, at, data, old)
	}
	if old != nil {
		t.reply(kindOld, token, &head{off: h.off}, old)
	}
}

// tellFlushed answers a flush, and says whether an operation before it has been refused.
func (t *target) tellFlushed() {
	said := uint64(0)
	if t.refusing {
		said = 1
	}
	t.refusing = false
	t.tell(kindFlushed, said)
}

// refusal is the error of operations outside of the memory of the rank, as far as only the rank knows that.
func (t *target) refusal() error {
	return fmt.Errorf("%w: rank %d has refused an operation: it has no memory there", ft.ErrArgument, t.rank)
}

// completeRequests completes the oldest requests, as far as they can be.
func (t *target) completeRequests() {
	for len(t.requests) > 0 {
		r := t.requests[0]
		switch {
		case r.err != nil && t.underWay > 0, r.err == nil && (r.flush > t.acked || !t.moved(r.move)):
			return
		case r.err == nil && t.refused:
			r.err = t.refusal()
			t.refused = false // that reports it
		}
		t.requests = t.requests[1:]
		r.promise.Complete(r.err)
	}
}

func (t *target) reply(k kind, token uint32, h *head, data []byte) {
	t.replies = append(t.replies, item{
		kind: k, token: token, head: head{off: h.off}, data: data, n: uint64(len(data)),
	})
	t.pump()
}

// notify counts a notice of a counter, from 1.
func (w *Window) notify(counter uint32) {
	if uint64(counter) <= uint64(len(w.notices)) {
		w.notices[counter-1]++
		w.wake()
	}
}

// result takes a part of the bytes that an operation reads. It reports whether that was the last part of an answer.
func (t *target) result(k kind, token uint32, h *head, data []byte) (last bool) {
	last = h.flags&lastChunk != 0
	r := t.w.results[token]
	if r == nil || r.t != t { // its operation has ended
		return last
	}
	if !inside(h.off, uint64(len(data)), uint64(len(r.buf))) || uint64(len(data)) > r.left {
		return last
	}
	copy(r.buf[h.off:], data)
	if k == kindRefused {
		r.err = t.refusal()
		t.refused = t.refused || !r.fetched
	}
	if r.left -= uint64(len(data)); r.left == 0 || r.err != nil {
		r.done = true
		delete(t.w.results, token)
	}
	return last
}

// answered handles an answer to a request of this rank.
func (t *target) answered(k kind, token uint32, h *head, data []byte) {
	w := t.w
	switch k {
	case kindOld, kindRefused:
		if !t.result(k, token, h, data) {
			return
		}
	case kindFlushed:
		t.acked = min(t.acked+1, t.sent)
		t.refused = t.refused || h.at != 0
		t.completeRequests()
		t.busy.Store(!t.quiet())
		t.releaseLater()
	case kindHere:
		t.learn(h.at, data)
	case kindGranted:
		if !t.lock.direct {
			t.granted = t.held
			t.refresh()
		}
	}
	t.open = max(0, t.open-1)
	t.pump()
	w.wake()
}
