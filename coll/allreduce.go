package coll

import (
	"cmp"
	"math/bits"

	"github.com/banyan-hpc/banyan/p2p"
)

// longAllreduce is what is folded in parts, a part at each rank, in bytes.
const longAllreduce = 16 << 10

// Allreduce folds everybody's buf and leaves the result in everybody's, the same bytes at all ranks. Those who are agreed to be gone
// contribute nothing, and the lowest rank that is left is the root where the way needs one (S0-31).
func Allreduce[M p2p.Mode](c *p2p.Comm, s Setting, buf []byte, f Fold) error {
	w, err := everybody(c, &s, "allreduce")
	if err != nil {
		return s.end(err)
	}
	var to []byte
	if s.Trees.free() {
		to, err = flatOrTogether[M](w, &s, buf, f)
	} else {
		to, err = reduce[M](w, &s, buf, f, 0)
		if w.Rank() != 0 || err != nil {
			to, _ = s.toFold(buf)
		}
		err = thenBcast[M](w, s.Trees, to, err)
	}
	err = met(w, "allreduce", err)
	if err = s.end(err); err == nil && len(to) > 0 && &to[0] != &buf[0] {
		copy(buf, to)
	}
	return err
}

// flatOrTogether folds without a root, in shared memory where all can and it is little.
func flatOrTogether[M p2p.Mode](w *p2p.Comm, s *Setting, from []byte, f Fold) ([]byte, error) {
	to, scratch := s.toFold(from)
	if done, err := flatAllreduce[M](w, from, to, scratch, f.Op); done {
		return to, err
	}
	return together[M](w, s, from, f)
}

// thenBcast is the second half of an operation, which sends rank 0's buf to all. If the first one has ended with lengths that do not fit
// all learn of that: those who have the right one wait for something.
func thenBcast[M p2p.Mode](w *p2p.Comm, t *Trees, buf []byte, err error) error {
	switch {
	case err == nil:
		return bcast[M](w, t, buf, 0)
	case fatal(err):
		return err
	case w.Rank() == 0:
		buf = nil
	}
	return cmp.Or(err, bcast[M](w, t, buf, 0))
}

// together folds without a root. Long buffers are folded in parts, once all have told each other that theirs are as long.
func together[M p2p.Mode](w *p2p.Comm, s *Setting, from []byte, f Fold) ([]byte, error) {
	to, scratch := s.toFold(from)
	if s.End != nil {
		copy(to, from)
	}
	h := cubeAt(w.Size(), w.Rank())
	parts := h.parts(len(from), f.Unit)
	if parts || len(from) == len(mark{}) {
		t := s.Trees
		t.theirs = mark{}
		said, err := double[M](w, h, t.mark.set(len(from), f.unit(parts)), t.theirs[:], sameMark)
		if err == nil && !shows(said, len(said)) {
			err = disagreed(w, len(from))
		}
		if err != nil {
			return nil, err
		}
	}
	if parts {
		return to, halve[M](w, h, to, scratch, f)
	}
	return double[M](w, h, to, scratch, f.Op)
}

// unit is the length of elements on which ranks that fold in parts have to agree.
func (f *Fold) unit(parts bool) int {
	if parts {
		return f.Unit
	}
	return 0
}

// sameMark folds marks: of two that differ it makes none.
func sameMark(acc, in []byte) {
	if string(acc) != string(in) {
		clear(acc)
	}
}

// cube is a hypercube of the ranks: the largest power of two of them, in their order. Before it begins each of the
// ranks that are too many, the odd ones of the lowest, hands its part to the one below and gets the result from there.
type cube struct {
	size  int // of the cube
	extra int // how many are too many
	me    int // this rank's place; -1: it is too many
}

func cubeAt(n, me int) cube {
	h := cube{size: 1 << (bits.Len(uint(n)) - 1)}
	h.extra = n - h.size
	switch {
	case me >= 2*h.extra:
		h.me = me - h.extra
	case me%2 == 0:
		h.me = me / 2
	default:
		h.me = -1
	}
	return h
}

// parts reports whether buffers of a length are folded in parts, of elements of so many bytes.
func (h *cube) parts(length, unit int) bool {
	return unit > 0 && length >= longAllreduce && length/unit >= h.size
}

// rank is who has a place.
func (h *cube) rank(place int) int {
	if place < h.extra {
		return 2 * place
	}
	return place + h.extra
}

// helped reports whether the rank above is too many, and this one works for it.
func (h *cube) helped() bool { return h.me >= 0 && h.me < h.extra }

// double has neighbours, then pairs, then fours fold what they have: each operand in the order of ranks, at all ranks alike. Acc and in
// are two buffers; the one that it gives has the result. After lengths that do not fit ranks go on with empty messages, so
// that all have learnt of it when it ends.
func double[M p2p.Mode](w *p2p.Comm, h cube, acc, in []byte, op Op) ([]byte, error) {
	if h.me < 0 {
		below := w.Rank() - 1
		first := p2p.Send[M](w, acc, below, tagAllreduce)
		if fatal(first) {
			return nil, first
		}
		_, err := recvAll[M](w, acc, below, tagAllreduce)
		return acc, cmp.Or(first, err)
	}
	var first error
	if h.helped() {
		if _, first = recvAll[M](w, in, w.Rank()+1, tagAllreduce); fatal(first) {
			return nil, first
		}
		if first == nil {
			op(acc, in)
		}
	}
	for d := 1; d < h.size; d *= 2 {
		out, with := acc, h.rank(h.me^d)
		if first != nil {
			out = nil
		}
		err := swap[M](w, out, with, in, with, tagAllreduce)
		switch {
		case fatal(err):
			return nil, err
		case err != nil || first != nil:
			first = cmp.Or(first, err)
		case h.me&d == 0:
			op(acc, in)
		default:
			op(in, acc)
			acc, in = in, acc
		}
	}
	return acc, handUp[M](w, h, acc, first)
}

// handUp gives the result, or nothing, to the rank above if this one works for it.
func handUp[M p2p.Mode](w *p2p.Comm, h cube, acc []byte, first error) error {
	if !h.helped() {
		return first
	}
	if first != nil {
		acc = nil
	}
	return cmp.Or(p2p.Send[M](w, acc, w.Rank()+1, tagAllreduce), first)
}

// span is a stretch of elements.
type span struct{ from, to int }

// half gives the lower or the upper half.
func (s span) half(upper bool) span {
	mid := int(uint(s.from+s.to) / 2)
	if upper {
		return span{mid, s.to}
	}
	return span{s.from, mid}
}

// halve folds acc in parts: partners halve what they share and each folds one half, until each place of the cube has its own part; then
// they give each other the results on the way back. Each rank sends and receives less than twice what it has. In is memory
// of the same length. Precondition: all have the same length.
func halve[M p2p.Mode](w *p2p.Comm, h cube, acc, in []byte, f Fold) error {
	if h.me < 0 {
		if err := p2p.Send[M](w, acc, w.Rank()-1, tagAllreduce); err != nil {
			return err
		}
		_, err := recvAll[M](w, acc, w.Rank()-1, tagAllreduce)
		return err
	}
	if h.helped() {
		if _, err := recvAll[M](w, in, w.Rank()+1, tagAllreduce); err != nil {
			return err
		}
		f.Op(acc, in)
	}
	at := func(buf []byte, s span) []byte { return buf[s.from*f.Unit : s.to*f.Unit] }
	var spans [64]span
	have, depth := span{0, len(acc) / f.Unit}, 0
	for d := 1; d < h.size; d *= 2 {
		upper, with := h.me&d != 0, h.rank(h.me^d)
		mine, theirs := have.half(upper), have.half(!upper)
		to, got := at(acc, mine), at(in, mine)
		if err := swap[M](w, at(acc, theirs), with, got, with, tagAllreduce); err != nil {
			return err
		}
		if upper && !f.swaps() {
			f.Op(got, to)
			copy(to, got)
		} else {
			f.Op(to, got)
		}
		spans[depth] = have
		have, depth = mine, depth+1
	}
	for d := h.size / 2; d > 0; d /= 2 {
		depth--
		upper, with := h.me&d != 0, h.rank(h.me^d)
		mine, theirs := spans[depth].half(upper), spans[depth].half(!upper)
		if err := swap[M](w, at(acc, mine), with, at(acc, theirs), with, tagAllreduce); err != nil {
			return err
		}
	}
	return handUp[M](w, h, acc, nil)
}
