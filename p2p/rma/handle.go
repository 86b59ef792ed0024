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
		if inside(h.at, uint64(len(data)), uint64(len(w.mem))) {
			copy(w.mem[h.at:], data)
			w.notified(h)
		}
	case kindGet:
		if len(data) != 8 || !inside(h.at, binary.LittleEndian.Uint64(data), uint64(len(w.mem))) {
			t.reply(kindRefused, token, h, nil)
			return
		}
		n := binary.LittleEndian.Uint64(data)
		t.reply(kindOld, token, h, w.mem[h.at:h.at+n:h.at+n])
	case kindAcc, kindGetAcc, kindCas:
		t.update(k, token, h, data)
	case kindFlush:
		t.tell(kindFlushed, 0)
	case kindLock:
		w.lock.request(t.rank, LockKind(h.at))
		w.grant()
	case kindUnlock:
		w.lock.release(t.rank)
		t.tell(kindFlushed, 0)
		w.grant()
	case kindPost:
		t.posted++
		w.wake()
	case kindComplete:
		t.completed++
		w.wake()
	}
}

// update does an accumulate of any kind.
func (t *target) update(k kind, token uint32, h *head, data []byte) {
	w, n, size := t.w, uint64(len(data)), uint64(h.elem.size())
	if k == kindCas {
		n /= 2
	}
	if size == 0 || n%size != 0 || h.at%size != 0 || !h.acc.applies(h.elem) ||
		!inside(h.at, n, uint64(len(w.mem))) || k == kindCas && uint64(len(data)) != 2*size {
		if k != kindAcc {
			t.reply(kindRefused, token, h, nil)
		}
		return
	}
	at := w.mem[h.at : h.at+n]
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

func (t *target) reply(k kind, token uint32, h *head, data []byte) {
	t.replies = append(t.replies, item{
		kind: k, token: token, head: head{off: h.off}, data: data, n: uint64(len(data)),
	})
	t.pump()
}

// notified counts a notice with the last frame of its put.
func (w *Window) notified(h *head) {
	if h.flags&lastChunk == 0 || h.notice == 0 || uint64(h.notice) > uint64(len(w.notices)) {
		return
	}
	w.notices[h.notice-1]++
	w.wake()
}

// result takes a part of what an operation reads. It reports whether that was the last part of an answer.
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
		r.err = fmt.Errorf("%w: rank %d has refused the operation", ft.ErrArgument, t.rank)
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
		for len(t.requests) > 0 && t.requests[0].flush <= t.acked {
			t.requests[0].promise.Complete(nil)
			t.requests = t.requests[1:]
		}
		t.busy.Store(!t.quiet())
	case kindGranted:
		t.granted = t.held != 0
		t.refresh()
	}
	t.open = max(0, t.open-1)
	t.pump()
	w.wake()
}
