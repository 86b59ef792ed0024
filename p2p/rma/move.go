package rma

import (
	"bytes"
	"slices"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// Where an adapter reaches the memory of a target (fabric.Mover), it does puts and gets: they are moves. All else
// goes by frames. Accumulates too, also those for which adapters have instructions: an adapter's are atomic towards
// each other, but on most machines not towards those of the owner's processor, which does the others.
//
// Frames do not know of moves, so a frame that says that operations are complete waits until the moves before
// it are. An operation that is complete needs no answer of its target: a flush of moves alone takes no frame. The notice of a put
// goes with its move (Mover.TryNotify), behind it and all before it.
//
// Moves that are lost, as their path has failed, are done again by frames. They may have been done, and a target that has had a notice
// may use the memory of the puts before it for something else. So the notices of a rank for a target are numbered, and each
// frame of a put has the number of those before it: a target that has had more drops it, data and notice. When an epoch, request or window ends with
// an error, the buffers belong to the application again: first the moves have to end, which they do without the target.

// moves are those to or from one peer that are under way, the oldest first.
type moves struct{ parts []part }

// part is a part of an operation.
type part struct {
	t    *target
	kind kind
	move uint64 // of the operation
	at   uint64 // in the target's memory
	buf  []byte // of this rank
	// piece is that of the operation.
	piece *piece
	// before and notice are those of the head of the operation's frames; only the last part of a put has a notice.
	before uint64
	notice uint32
	// abandoned: the application gets its buffer back, with an error, when this part has ended.
	abandoned bool
}

// mostLosses is the number of reports of lost moves of a target after which its operations are frames: it may have freed
// its memory.
const mostLosses = 3

// findPath finds out whether an adapter reaches the memory of a target. Precondition: as find.
func (t *target) findPath() {
	m, ok := t.ep.Conn().(fabric.Mover)
	if !ok || len(t.pieces) == 0 && !t.w.dynamic {
		return
	}
	s := t.w.s
	if t.mover, t.moves = m, s.moving[t.id]; t.moves == nil {
		t.moves = new(moves)
		s.moving[t.id] = t.moves
	}
}

// pathOf gives the memory that an operation on n bytes moves to or from; nil: it is frames. A notice alone is a frame.
func (t *target) pathOf(op *Op, n uint64) *piece {
	if t.mover == nil || n == 0 || op.Kind != Put && op.Kind != Get || t.losses >= mostLosses || !t.mover.Moves() {
		return nil
	}
	return t.pieceOf(op.At, n)
}

// startMove starts a move.
func (t *target) startMove(it item, op *Op) {
	if op.Kind == Get {
		it.data = op.Old
	}
	t.last++
	it.move = t.last
	t.waiting++
	t.busy.Store(true)
	t.out = append(t.out, it)
	t.pump()
}

// move starts the remaining parts of the first item. Without a path it becomes frames.
func (t *target) move(it *item) (sent int, all bool) {
	for it.done < it.n {
		rest, at, n := it.data[it.done:], it.head.at+it.done, fabric.NoPath
		if t.losses < mostLosses {
			n = t.tryMove(it, rest, at)
		}
		switch {
		case n == fabric.NoPath:
			return sent, t.becomeFrames(it)
		case n == fabric.NoRoom:
			t.stall()
			return sent, false
		}
		p := part{t: t, kind: it.kind, move: it.move, piece: it.piece, at: at, buf: rest[:n], before: it.head.off}
		if n == len(rest) {
			p.notice = it.head.notice
		}
		t.moves.parts = append(t.moves.parts, p)
		it.done += uint64(n)
		t.underWay++
		sent++
	}
	t.waiting--
	return sent, true
}

// tryMove starts the next part, with the notice if that is the last one.
func (t *target) tryMove(it *item, rest []byte, at uint64) int {
	region, at := it.piece.region, at-it.piece.from
	switch {
	case it.kind == kindGet:
		return t.mover.TryGet(rest, region, at)
	case it.head.notice == 0:
		return t.mover.TryPut(rest, region, at)
	}
	h := head{flags: lastChunk, notice: it.head.notice, at: it.head.at, off: it.head.off}
	frame := t.newFrame(&h)
	return t.mover.TryNotify(rest, region, at, fabric.ClassRMA, t.immediate(kindPut, 0), frame)
}

// becomeFrames puts frames in the place of the rest of the first item, which its caller drops. False: that has to wait.
func (t *target) becomeFrames(it *item) bool {
	left := item{kind: it.kind, head: it.head, data: it.data[it.done:], n: it.n - it.done}
	left.head.at += it.done
	if it.kind == kindGet {
		token, err := t.w.newToken()
		if err != nil {
			t.stall()
			return false
		}
		t.w.results[token] = &result{t: t, buf: left.data, left: left.n}
		left.token, left.data = token, nil
	}
	t.waiting--
	t.out = slices.Insert(t.out, 1, left)
	t.flushLater()
	return true
}

// flushLater has a flush behind all that waits, which all requests need.
func (t *target) flushLater() {
	t.dirty = false
	t.busy.Store(true)
	if t.out[len(t.out)-1].kind != kindFlush {
		t.sent++
		t.out = append(t.out, item{kind: kindFlush})
	}
	for i := range t.requests {
		t.requests[i].flush = t.sent
	}
}

// moved reports whether a move is complete, or has become frames.
func (t *target) moved(move uint64) bool {
	if t.underWay > 0 {
		for i := range t.moves.parts {
			if p := &t.moves.parts[i]; p.t == t {
				return p.move > move
			}
		}
	}
	for i := range t.out {
		if it := &t.out[i]; it.move > 0 {
			return it.move > move
		}
	}
	return true
}

// abandon ends the use of the application's buffers by moves: those that wait do not read any more, and those that are
// under way are not done again in place.
func (t *target) abandon() {
	t.out = slices.DeleteFunc(t.out, func(it item) bool {
		drop := it.move > 0 && it.kind == kindGet
		if drop {
			t.waiting--
		}
		return drop
	})
	if t.underWay == 0 {
		return
	}
	for i := range t.moves.parts {
		if p := &t.moves.parts[i]; p.t == t {
			p.abandoned = true
		}
	}
}

// onMoved handles the end of the oldest parts of a peer.
func (s *Service) onMoved(peer proc.ID, n int, lost bool) {
	q := s.moving[peer]
	if q == nil || n > len(q.parts) {
		return
	}
	var few [4]*target
	touched := few[:0]
	for i := n - 1; i >= 0; i-- {
		p := &q.parts[i]
		p.t.underWay--
		if lost { // the last one first: each goes before all that wait
			p.t.again(p)
		}
		if !slices.Contains(touched, p.t) {
			touched = append(touched, p.t)
		}
	}
	q.parts = slices.Delete(q.parts, 0, n)
	for _, t := range touched {
		if lost {
			t.losses++
		}
		t.pump()
		t.completeRequests()
		t.busy.Store(!t.quiet())
		t.w.wake()
	}
}

// again has a lost part wait again.
func (t *target) again(p *part) {
	switch {
	case t.ended || t.w.freed || p.abandoned && p.kind == kindGet:
		return
	case p.abandoned:
		p.buf = bytes.Clone(p.buf)
	}
	h := head{at: p.at, off: p.before, notice: p.notice}
	it := item{kind: p.kind, move: p.move, piece: p.piece, head: h, data: p.buf, n: uint64(len(p.buf))}
	t.waiting++
	t.out = slices.Insert(t.out, 0, it)
}

// forget drops the moves under way with a peer that has ended: its connection does nothing for it any more.
func (s *Service) forget(peer proc.ID) {
	if q := s.moving[peer]; q != nil {
		for i := range q.parts {
			q.parts[i].t.underWay = 0
		}
		q.parts = nil
		delete(s.moving, peer)
	}
}

// returns gives the error of a call, with which the application gets its buffers back. Precondition: as settle.
func (w *Window) returns(err error) error {
	if err != nil {
		w.settle()
	}
	return err
}

// settle waits until nothing moves, so that no adapter uses a buffer. Precondition: the lock is held.
func (w *Window) settle() {
	_ = w.await(func() (bool, error) {
		for i := range w.targets {
			if w.targets[i].underWay > 0 {
				return false, nil
			}
		}
		return true, nil
	})
}
