package coll

import "github.com/banyan-hpc/banyan/p2p"

// stream is a broadcast of a tree where a length header may come in place of the data. A rank learns
// from the first message whether segments follow, so the steps of its schedule are replaced then
// ([Schedule.turn]). A broadcast is the last part of each operation that has one.
type stream struct {
	headers  [2]header
	parent   int // -1 at the root
	children []int
	buf      []byte            // of the caller
	into     []byte            // for the first message
	total    int               // the length of the message
	at       int               // how much of it is here
	long     bool              // a length header has come
	useless  bool              // the length is not buf's: segments pass through two halves of other memory in turn
	again    int               // the step that waits for the next segment
	passed   int               // how many segments have been sent; the last ones are under way
	under    [ahead]p2p.Handle // those
}

// reset makes it ready for the next operation.
func (t *stream) reset() { *t = stream{children: t.children[:0]} }

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

// spreadLong is spread where length headers may come.
func (s *Schedule) spreadLong(r *route, buf []byte) {
	long, t := streamed(len(buf)), s.streaming()
	t.parent, t.children, t.buf = r.parent, append(t.children[:0], r.children...), buf
	if r.parent < 0 {
		first := buf
		if long {
			first, t.total = s.headers()[0].set(len(buf), 0), len(buf)
		}
		s.toChildren(stepSend, first)
		s.wait()
		if long {
			s.segments()
		}
		return
	}
	into := buf
	if long || len(buf) < headerLen {
		into = s.headers()[0][:]
	}
	t.into = into
	s.add(stepRecvFirst, r.parent, into, nil)
	s.wait()
	s.add(stepTurn, 0, nil, nil)
	s.toChildren(stepRelay, nil) // not run: start connects to the ranks of all steps
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

// turn replaces the steps after the first message of a broadcast, which is a length header or all data.
func (s *Schedule) turn() {
	t := s.stream
	into := t.into
	s.steps, s.at = s.steps[:0], 0
	if !t.long {
		if len(into) > 0 && len(t.buf) > 0 && &into[0] != &t.buf[0] && !s.spoiled {
			copy(t.buf, into)
		}
		s.toChildren(stepRelay, into)
		s.wait()
		return
	}
	if t.total != len(t.buf) {
		s.fail(mismatch(t.total, len(t.buf)))
		t.useless, t.buf = true, make([]byte, 2*segment)
	}
	s.toChildren(stepRelay, into)
	s.add(stepRecv, t.parent, t.piece(0), nil)
	s.wait()
	s.segments()
}

// segments adds the loop over segments. The step before it waits.
func (s *Schedule) segments() {
	s.stream.again = len(s.steps) - 1
	s.add(stepSegment, 0, nil, nil)
	s.wait()
}

// piece is the memory of the segment that starts at a place.
func (t *stream) piece(at int) []byte {
	if t.useless {
		return t.buf[at/segment%2*segment:][:min(segment, t.total-at)]
	}
	return piece(t.buf, at)
}

// segment passes on a segment that is here, while the next one arrives, and goes back to the wait for
// that one.
func (s *Schedule) segment() {
	t := s.stream
	if t.at >= t.total || t.parent < 0 && s.spoiled { // a root with wrong arguments has sent no header
		return
	}
	here := t.piece(t.at)
	t.at += segment
	if t.parent >= 0 {
		here = here[:min(s.got, len(here))]
		if t.at < t.total {
			next := t.piece(t.at)
			s.pend(s.irecv(next, t.parent), len(next))
		}
	}
	for _, child := range t.children {
		h := &t.under[t.passed%ahead]
		t.passed++
		s.now(h, sent)
		*h = s.isend(here, child)
	}
	// Half of other memory must be free for the next segment but one. And a child that has not called yet
	// holds one message of those that a link allows, not four.
	if t.useless || t.at == segment {
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
