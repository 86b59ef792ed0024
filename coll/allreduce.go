package coll

import (
	"math/bits"

	"github.com/banyan-hpc/banyan/coll/choose"
	"github.com/banyan-hpc/banyan/coll/sm"
)

// allreduce reduces to the lowest rank over a chosen tree and broadcasts from there. Else it needs no
// root: it goes by recursive doubling, or long buffers, of which each rank folds a part, in another way.
func (s *Schedule) allreduce(in, out []byte, f Fold) {
	switch {
	case s.ended:
	case s.between():
		s.allreduceBetween(in, out, f)
	case !s.free():
		to := s.reduceTo(in, out, f, 0)
		s.spread(s.o.to(0), to)
		s.result = result{to: out, from: to}
	default:
		s.allreduceAtOnce(in, out, f)
	}
}

// allreduceAtOnce has no root.
func (s *Schedule) allreduceAtOnce(in, out []byte, f Fold) {
	h, m := cubeAt(s.w.Size(), s.w.Rank(), same), s.menu()
	to, scratch := s.toFold(out, len(in), len(in)+s.w.Size()*f.Unit)
	s.result, s.fold = result{to: out, from: to}, f.Op
	by, unit := h.folding(m, len(to), f)
	headed := by != m.First() || len(to) == headerLen && !m.One()
	switch {
	case headed && s.headerInMemory(len(to), unit):
		if !s.spoiled {
			s.foldAll(h, by, in, to, scratch, f)
		}
		return
	case !headed && s.alone(func(g *sm.Segment, most int) (bool, error) { return g.Allreduce(s.kind.op(), in, to, f.Op, most) }):
		return
	}
	if l, most := s.overNodes(); l != nil && (l.inOrder || f.AnyOrder) {
		copyTo(to, in)
		s.allreduceOverNodes(l, most, to, scratch, f)
		return
	}
	if headed {
		m := s.headers()
		s.add(stepAgreed, 0, to, s.recursiveDoubling(h, m[0].set(len(to), unit), m[1][:], stepSame))
	}
	s.foldAll(h, by, in, to, scratch, f)
}

// headerInMemory has all ranks agree on the length of long buffers by a length header in shared memory. Data of its
// length do not go there. False: there is no memory, or some rank came without a header, and headers go by messages.
func (s *Schedule) headerInMemory(length, unit int) bool {
	return s.alone(func(g *sm.Segment, _ int) (bool, error) {
		mine := s.headers()[0].set(length, unit)
		if s.spoiled {
			mine = nil
		}
		done, err := g.Allreduce(s.kind.op(), mine, mine, sameHeader, len(mine))
		if done && err == nil && !isHeader(mine, len(mine)) {
			err = disagreed(length)
		}
		return done, err
	})
}

// folding returns the algorithm for a buffer of a length, and the length of the elements at whose boundaries the
// buffer is split; 0: it is not split.
func (h *cube) folding(m *choose.Menu, length int, f Fold) (by choose.Algorithm, unit int) {
	if by = m.At(length); by != choose.Doubling && f.Unit > 0 && length/f.Unit >= h.size {
		return by, f.Unit
	}
	return choose.Doubling, 0
}

// foldAll folds the ins of all ranks into to, which may be the same memory.
func (s *Schedule) foldAll(h cube, by choose.Algorithm, in, to, scratch []byte, f Fold) {
	if by == choose.Straight {
		s.foldStraight(in, to, scratch, f)
		return
	}
	copyTo(to, in)
	scratch = scratch[:len(to)]
	if by == choose.Halving {
		s.halvingDoubling(h, to, scratch, f)
	} else {
		to = s.recursiveDoubling(h, to, scratch, stepFold)
	}
	s.result.from = to
}

// foldStraight has each rank fold a part of the buffers, which all others send to it, in the order of ranks, and send the
// result to all. Scratch is memory for a part of each rank.
func (s *Schedule) foldStraight(in, to, scratch []byte, f Fold) {
	n, me, elements := s.w.Size(), s.w.Rank(), len(in)/f.Unit
	part := func(buf []byte, of int) []byte { return buf[elements*of/n*f.Unit : elements*(of+1)/n*f.Unit] }
	mine, inPlace := part(to, me), sameMemory(in, to)
	// The part of first is in the place of the result, so that nothing is copied; the first two may change places.
	first := 0
	if me < 2 && n > 1 && (me == 0) != inPlace && f.swaps() {
		first = 1
	}
	place := func(rank int) []byte {
		switch {
		case rank == me:
			return part(in, me)
		case rank == first && !inPlace:
			return mine
		}
		return scratch[rank*len(mine):][:len(mine)]
	}
	s.toAll(place, func(dst int) []byte { return part(in, dst) })
	acc := place(first)
	if me == first && !inPlace {
		s.add(stepCopy, 0, mine, acc)
		acc = mine
	}
	for rank := range n {
		if rank != first {
			s.add(stepFold, 0, acc, place(rank))
		}
	}
	if !sameMemory(acc, mine) {
		s.add(stepCopy, 0, mine, acc)
	}
	s.toAll(func(src int) []byte { return part(to, src) }, func(int) []byte { return mine })
}

// cube is a hypercube of n ranks: the largest power of two of them, in their order. Each of the
// surplus ranks, the odd ones of the lowest, first hands its part to the rank below and finally gets
// the result from there.
type cube struct {
	size    int              // of the cube
	extra   int              // the number of surplus ranks
	me      int              // this rank's place; -1: it is a surplus rank
	at      int              // this rank's place among the n
	ordered func(at int) int // the rank there
}

func cubeAt(n, me int, ordered func(at int) int) cube {
	h := cube{size: 1 << (bits.Len(uint(n)) - 1), at: me, ordered: ordered}
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

// rank is the rank at a place.
func (h *cube) rank(place int) int {
	if place < h.extra {
		return h.ordered(2 * place)
	}
	return h.ordered(place + h.extra)
}

// helps reports whether the rank above is a surplus rank.
func (h *cube) helps() bool { return h.me >= 0 && h.me < h.extra }

// recursiveDoubling has neighbours, then pairs, then fours fold their results, each operand in the
// order of ranks, at all ranks alike. Acc and in are two buffers; it gives the one with the result.
// After lengths that do not fit ranks go on with empty messages, so that all have learned of it in the
// end.
func (s *Schedule) recursiveDoubling(h cube, acc, in []byte, fold stepKind) []byte {
	if h.me < 0 {
		s.beSurplus(h, acc)
		return acc
	}
	s.takeSurplus(h, acc, in, fold)
	for d := 1; d < h.size; d *= 2 {
		with := h.rank(h.me ^ d)
		s.exchange(with, acc, with, in)
		if h.me&d == 0 {
			s.add(fold, 0, acc, in)
		} else {
			s.add(fold, 0, in, acc)
			acc, in = in, acc
		}
	}
	s.returnSurplus(h, acc)
	return acc
}

// beSurplus is all that a surplus rank does.
func (s *Schedule) beSurplus(h cube, acc []byte) {
	below := h.ordered(h.at - 1)
	s.add(stepSend, below, nil, acc)
	s.wait()
	s.add(stepRecv, below, acc, nil)
	s.wait()
}

// takeSurplus folds the part of a surplus rank above.
func (s *Schedule) takeSurplus(h cube, acc, in []byte, fold stepKind) {
	if h.helps() {
		s.add(stepRecv, h.ordered(h.at+1), in, nil)
		s.wait()
		s.add(fold, 0, acc, in)
	}
}

// returnSurplus sends the result to a surplus rank above.
func (s *Schedule) returnSurplus(h cube, acc []byte) {
	if h.helps() {
		s.add(stepSend, h.ordered(h.at+1), nil, acc)
		s.wait()
	}
}

// span is a range of elements.
type span struct{ from, to int }

// half gives the lower or the upper half.
func (p span) half(upper bool) span {
	mid := int(uint(p.from+p.to) / 2)
	if upper {
		return span{mid, p.to}
	}
	return span{p.from, mid}
}

// halvingDoubling folds acc in parts: partners halve the range that they share and each folds one half,
// until each place of the cube has its own part; then they exchange the results on the way back. Each
// rank sends and receives less than twice its buffer. In is memory of the same length. Precondition:
// all ranks have the same length.
func (s *Schedule) halvingDoubling(h cube, acc, in []byte, f Fold) {
	if h.me < 0 {
		s.beSurplus(h, acc)
		return
	}
	s.takeSurplus(h, acc, in, stepFold)
	at := func(buf []byte, p span) []byte { return buf[p.from*f.Unit : p.to*f.Unit] }
	var spans [64]span
	have, depth := span{0, len(acc) / f.Unit}, 0
	for d := 1; d < h.size; d *= 2 {
		upper, with := h.me&d != 0, h.rank(h.me^d)
		mine, theirs := have.half(upper), have.half(!upper)
		to, got := at(acc, mine), at(in, mine)
		s.exchange(with, at(acc, theirs), with, got)
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
		upper, with := h.me&d != 0, h.rank(h.me^d)
		s.exchange(with, at(acc, spans[depth].half(upper)), with, at(acc, spans[depth].half(!upper)))
	}
	s.returnSurplus(h, acc)
}
