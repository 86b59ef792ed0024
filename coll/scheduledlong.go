package coll

import "github.com/banyan-hpc/banyan/p2p"

// Long messages of operations that have been begun, as those that block have them: bcast.go and allreduce.go. Who is on the way learns by a mark that
// a long one follows. So what is to be done is not known before, and these steps put the next ones in place; a broadcast is what each operation
// that has one ends with.

// streaming is a long message that goes down a tree in segments.
type streaming struct {
	marks    *[2]mark // one that is sent or comes, and the partner's; nil until there is need
	parent   int      // -1 at the root
	children []int
	buf      []byte             // of the caller
	into     []byte             // for what comes first
	total    int                // the length of the message
	at       int                // of which so much is here
	met      bool               // a mark has come
	useless  bool               // the message is not of buf's length: segments pass through here, through one half and the other in turn
	again    int                // the step that waits for the next segment
	under    *[ahead]p2p.Handle // nil until there is need
	passed   int                // how many messages have been, of which the last ones are under way
}

// renewed is what a stream keeps for the next operation. After an error those that count as dead may still use its marks.
func (t *streaming) renewed(err error) streaming {
	fresh := streaming{children: t.children[:0], under: t.under}
	if err == nil {
		fresh.marks = t.marks
	}
	return fresh
}

// twoMarks is memory for marks.
func (s *Schedule) twoMarks() *[2]mark {
	if s.stream.marks == nil {
		s.stream.marks = new([2]mark)
	}
	s.stream.marks[1] = mark{}
	return s.stream.marks
}

// spread goes down the tree. Lengths that do not fit are dealt with as by [Bcast].
func (s *Schedule) spread(r *route, buf []byte) {
	if s.way.Trees.segmented() {
		s.spreadMarked(r, buf)
		return
	}
	kind := stepSend
	if r.parent >= 0 {
		kind = stepRelay
		s.add(stepRecv, r.parent, buf, nil)
		s.wait()
	}
	for _, child := range r.children {
		s.add(kind, child, nil, buf)
	}
	s.wait()
}

// spreadMarked is spread where marks may come.
func (s *Schedule) spreadMarked(r *route, buf []byte) {
	long, t := streamed(len(buf)), &s.stream
	t.parent, t.children, t.buf = r.parent, append(t.children[:0], r.children...), buf
	if r.parent < 0 {
		first := buf
		if long {
			first, t.total = s.twoMarks()[0].set(len(buf), 0), len(buf)
		}
		s.toChildren(stepSend, first)
		if long {
			s.segments()
		}
		return
	}
	into := buf
	if long || len(buf) < len(mark{}) {
		into = s.twoMarks()[0][:]
	}
	t.into = into
	s.add(stepRecvFirst, r.parent, into, nil)
	s.wait()
	s.add(stepTurn, 0, nil, nil)
	for _, child := range r.children { // not taken: Start reaches who is named here
		s.add(stepRelay, child, nil, nil)
	}
}

func (s *Schedule) toChildren(kind stepKind, buf []byte) {
	for _, child := range s.stream.children {
		s.add(kind, child, nil, buf)
	}
	s.wait()
}

// first looks at the first message of a broadcast.
func (t *streaming) first(w *p2p.Comm, st p2p.Status, err error) (whole int, _ error) {
	if err != nil || !shows(t.into, st.Count) {
		return fit(w, st, err, len(t.buf))
	}
	t.met, t.total = true, marked(t.into)
	return st.Count, nil
}

// turn goes on from the first message of a broadcast: a mark, or all.
func (s *Schedule) turn() {
	t := &s.stream
	into := t.into
	s.steps, s.at = s.steps[:0], 0
	if !t.met {
		if len(into) > 0 && len(t.buf) > 0 && &into[0] != &t.buf[0] && !s.spoiled {
			copy(t.buf, into)
		}
		s.toChildren(stepRelay, into)
		return
	}
	if t.total != len(t.buf) {
		s.misfit(mismatch(s.w, t.total, len(t.buf)))
		t.useless, t.buf = true, make([]byte, 2*segment)
	}
	s.add(stepRecv, t.parent, t.piece(0), nil)
	s.toChildren(stepRelay, into)
	s.segments()
}

// segments goes on with one segment after the other. The step before it waits.
func (s *Schedule) segments() {
	if s.stream.under == nil {
		s.stream.under = new([ahead]p2p.Handle)
	}
	s.stream.again = len(s.steps) - 1
	s.add(stepSegment, 0, nil, nil)
	s.wait()
}

// piece is where the segment that begins at a place goes.
func (t *streaming) piece(at int) []byte {
	if t.useless {
		return t.buf[at/segment%2*segment:][:min(segment, t.total-at)]
	}
	return piece(t.buf, at)
}

// segment passes on a segment that is here, while the next one arrives, and goes back to the wait for that.
func (s *Schedule) segment() {
	t := &s.stream
	if t.at >= t.total || t.parent < 0 && s.spoiled { // a root whose data are wrong has sent no mark
		return
	}
	here := t.piece(t.at)
	t.at += segment
	if t.parent >= 0 {
		here = here[:min(s.whole, len(here))]
		if t.at < t.total {
			next := t.piece(t.at)
			s.begun(s.irecv(next, t.parent), len(next))
		}
	}
	for _, child := range t.children {
		h := &t.under[t.passed%ahead]
		t.passed++
		s.now(h, sent)
		*h = s.isend(here, child)
	}
	if t.useless || t.at == segment { // its halves take turns; a child that has not begun holds one message of what a link allows, not four
		s.nowAll(t.under)
	}
	if t.at < t.total {
		s.at = t.again
	}
}

// now has the next wait be for a request, too.
func (s *Schedule) now(h *p2p.Handle, want int) {
	s.begun(*h, want)
	*h = p2p.Handle{}
}

// nowAll is now for what has been sent.
func (s *Schedule) nowAll(all *[ahead]p2p.Handle) {
	for i := range all {
		s.now(&all[i], sent)
	}
}

// lastly waits for what no step has waited for.
func (s *Schedule) lastly() bool {
	if s.rise == nil && s.stream.under == nil {
		return true
	}
	if s.rise != nil {
		s.nowAll(&s.rise.coming)
		s.now(&s.rise.up, sent)
	}
	if s.stream.under != nil {
		s.nowAll(s.stream.under)
	}
	return s.await()
}

// together folds without a root, as the operation that blocks.
func (s *Schedule) together(buf []byte, f Fold) {
	s.fold = f.Op
	to, scratch := s.toFold(buf)
	if s.staged() {
		s.add(stepCopy, 0, to, buf)
	}
	h := cubeAt(s.w.Size(), s.w.Rank())
	parts := h.parts(len(buf), f.Unit)
	if parts || len(buf) == len(mark{}) {
		m := s.twoMarks()
		s.add(stepAgreed, 0, nil, s.double(h, m[0].set(len(buf), f.unit(parts)), m[1][:], stepSame))
	}
	if parts {
		s.halve(h, to, scratch, f)
	} else {
		to = s.double(h, to, scratch, stepFold)
	}
	s.result = result{to: buf, from: to}
}

// double folds as [double] and gives where the result is.
func (s *Schedule) double(h cube, acc, in []byte, fold stepKind) []byte {
	below, above := s.w.Rank()-1, s.w.Rank()+1
	if h.me < 0 {
		s.add(stepSend, below, nil, acc)
		s.wait()
		s.add(stepRecv, below, acc, nil)
		s.wait()
		return acc
	}
	if h.helped() {
		s.add(stepRecv, above, in, nil)
		s.wait()
		s.add(fold, 0, acc, in)
	}
	for d := 1; d < h.size; d *= 2 {
		s.swap(h.rank(h.me^d), acc, in)
		if h.me&d == 0 {
			s.add(fold, 0, acc, in)
		} else {
			s.add(fold, 0, in, acc)
			acc, in = in, acc
		}
	}
	s.handUp(h, acc)
	return acc
}

// swap sends out to a rank and receives in from it.
func (s *Schedule) swap(with int, out, in []byte) {
	s.add(stepRecv, with, in, nil)
	s.add(stepSend, with, nil, out)
	s.wait()
}

// handUp gives the result to the rank above if this one works for it.
func (s *Schedule) handUp(h cube, acc []byte) {
	if h.helped() {
		s.add(stepSend, s.w.Rank()+1, nil, acc)
		s.wait()
	}
}

// halve folds acc in parts, as [halve].
func (s *Schedule) halve(h cube, acc, in []byte, f Fold) {
	if h.me < 0 {
		s.double(h, acc, in, stepFold)
		return
	}
	if h.helped() {
		s.add(stepRecv, s.w.Rank()+1, in, nil)
		s.wait()
		s.add(stepFold, 0, acc, in)
	}
	at := func(buf []byte, p span) []byte { return buf[p.from*f.Unit : p.to*f.Unit] }
	var spans [64]span
	have, depth := span{0, len(acc) / f.Unit}, 0
	for d := 1; d < h.size; d *= 2 {
		upper := h.me&d != 0
		mine, theirs := have.half(upper), have.half(!upper)
		to, got := at(acc, mine), at(in, mine)
		s.swap(h.rank(h.me^d), at(acc, theirs), got)
		if upper && !f.swaps() {
			s.add(stepFold, 0, got, to)
			s.add(stepCopy, 0, to, got)
		} else {
			s.add(stepFold, 0, to, got)
		}
		spans[depth] = have
		have, depth = mine, depth+1
	}
	for d := h.size / 2; d > 0; d /= 2 {
		depth--
		upper := h.me&d != 0
		s.swap(h.rank(h.me^d), at(acc, spans[depth].half(upper)), at(acc, spans[depth].half(!upper)))
	}
	s.handUp(h, acc)
}
