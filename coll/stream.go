package coll

import (
	"github.com/banyan-hpc/banyan/coll/choose"
	"github.com/banyan-hpc/banyan/p2p"
)

// stream is a broadcast where a length header may come in place of the data. It goes the way of the shortest lengths.
// A rank learns from it which way the data go, so the steps behind it are added then
// ([Schedule.turn]). A broadcast is the last part of each operation that has one.
type stream struct {
	headers  [2]header
	menu     *choose.Menu
	tree     route // of the algorithms that have no other one
	parent   int   // of the way at hand; -1 at the root
	children []int
	buf      []byte               // of the caller
	into     []byte               // for the first message
	total    int                  // the length of the message
	size     int                  // that of a segment, or total
	at       int                  // how much of it is here
	long     bool                 // a length header has come
	useless  bool                 // the length is not buf's: segments pass through two halves of other memory in turn
	again    int                  // the step that waits for the next segment
	passed   int                  // how many segments have been sent; the last ones are under way
	under    [underway]p2p.Handle // their requests
}

// reset makes it ready for the next operation.
func (t *stream) reset() {
	*t = stream{children: t.children[:0], tree: route{children: t.tree.children[:0]}}
}

// streaming gives the stream of the operation.
func (s *Schedule) streaming() *stream {
	if s.stream == nil {
		s.stream = new(stream)
	}
	return s.stream
}

// headers is memory for two length headers: one of this rank, and one of another.
func (s *Schedule) headers() *[2]header {
	h := &s.streaming().headers
	h[1] = header{}
	return h
}

// spreadLong sends buf of the root by the algorithms of a menu that has several, of which r is the tree.
func (s *Schedule) spreadLong(r *route, buf []byte, m *choose.Menu) {
	long, t := ahead(m, len(buf)), s.streaming()
	t.menu, t.buf = m, buf
	t.tree.root, t.tree.parent, t.tree.children = r.root, r.parent, append(t.tree.children[:0], r.children...)
	s.reach(m)
	s.take(m.First())
	if t.parent < 0 {
		first := buf
		if long {
			first, t.total = s.headers()[0].set(len(buf), 0), len(buf)
		}
		s.toChildren(stepSend, first)
		s.wait()
		if long {
			s.goOn()
		}
		return
	}
	into := buf
	if long || len(buf) < headerLen {
		into = s.headers()[0][:]
	}
	t.into = into
	s.add(stepRecvFirst, t.parent, into, nil)
	s.wait()
	s.add(stepTurn, 0, nil, nil)
	s.toChildren(stepReach, nil)
}

// reach has start connect to the ranks to which the data behind a length header may go, or come from.
func (s *Schedule) reach(m *choose.Menu) {
	for _, by := range [...]choose.Algorithm{choose.Binomial, choose.Straight, choose.Chain} {
		if by == m.First() || !m.Has(by) && !(by == choose.Binomial && m.Has(choose.Pipelined)) {
			continue
		}
		if s.take(by); s.stream.parent >= 0 {
			s.add(stepReach, s.stream.parent, nil, nil)
		}
		s.toChildren(stepReach, nil)
	}
}

// take takes the places of an algorithm for the messages that follow.
func (s *Schedule) take(by choose.Algorithm) {
	t, me, n := s.stream, s.w.Rank(), s.w.Size()
	t.children = t.children[:0]
	switch by {
	case choose.Straight:
		flat := s.ownRoute()
		flat.straight(me, n, t.tree.root)
		t.parent, t.children = flat.parent, append(t.children, flat.children...)
	case choose.Chain:
		if t.parent = (me + n - 1) % n; me == t.tree.root {
			t.parent = -1
		}
		if next := (me + 1) % n; next != t.tree.root {
			t.children = append(t.children, next)
		}
	default:
		t.parent, t.children = t.tree.parent, append(t.children, t.tree.children...)
	}
}

func (s *Schedule) toChildren(kind stepKind, buf []byte) {
	for _, child := range s.stream.children {
		s.add(kind, child, nil, buf)
	}
}

// first looks at the first message of a broadcast.
func (t *stream) first(w *p2p.Comm, st p2p.Status, err error) (got int, _ error) {
	if err != nil || !isHeader(t.into, st.Count) {
		return fit(w, st, err, len(t.buf))
	}
	t.long, t.total = true, lengthIn(t.into)
	return st.Count, nil
}

// turn adds the steps after the first message of a broadcast, which is a length header or all data.
func (s *Schedule) turn() {
	t := s.stream
	into := t.into
	if !t.long {
		if len(into) > 0 && len(t.buf) > 0 && &into[0] != &t.buf[0] && !s.spoiled {
			copy(t.buf, into)
		}
		s.toChildren(stepRelay, into)
		s.wait()
		return
	}
	s.toChildren(stepRelay, into)
	s.goOn()
}

// goOn adds the steps behind a length header: a loop over segments, or over the one piece of a message that goes whole.
func (s *Schedule) goOn() {
	t := s.stream
	by := t.menu.At(t.total)
	s.take(by)
	inParts := by == choose.Pipelined || by == choose.Chain
	if t.size = t.total; inParts {
		t.size = segment
	}
	if t.total != len(t.buf) {
		s.fail(mismatch(t.total, len(t.buf)))
		if t.useless = inParts; t.useless {
			t.buf = make([]byte, 2*segment)
		}
	}
	if t.parent >= 0 {
		s.add(stepRecv, t.parent, t.piece(0), nil)
	}
	s.wait()
	t.again = len(s.steps) - 1
	s.add(stepSegment, 0, nil, nil)
	s.wait()
}

// piece is the memory of the segment that starts at a place.
func (t *stream) piece(at int) []byte {
	if t.useless {
		return t.buf[at/segment%2*segment:][:min(segment, t.total-at)]
	}
	return t.buf[min(at, len(t.buf)):min(at+t.size, len(t.buf))]
}

// segment passes on a segment that is here, while the next one arrives, and goes back to the wait for
// that one.
func (s *Schedule) segment() {
	t := s.stream
	if t.at >= t.total || t.parent < 0 && s.spoiled { // a root with wrong arguments has sent no header
		return
	}
	here := t.piece(t.at)
	t.at += t.size
	if t.parent >= 0 {
		here = here[:min(s.got, len(here))]
		if t.at < t.total {
			next := t.piece(t.at)
			s.pend(s.irecv(next, t.parent), len(next))
		}
	}
	for _, child := range t.children {
		h := &t.under[t.passed%underway]
		t.passed++
		s.now(h, sent)
		*h = s.isend(here, child)
	}
	// Half of the other memory must be free for the next segment but one. And a child that has not called
	// yet takes one of the messages that a link allows, not four.
	if t.useless || t.at == t.size {
		s.awaitStream()
	}
	if t.at < t.total {
		s.at = t.again
	}
}

// awaitStream has the next wait be for all segments that have been sent.
func (s *Schedule) awaitStream() {
	for i := range s.stream.under {
		s.now(&s.stream.under[i], sent)
	}
}
