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
		to, scratch := s.toFold(out, len(in), 1)
		s.result = result{to: out, from: to}
		if !s.alone(func(g *sm.Segment, most int) (bool, error) { return g.Allreduce(in, to, f.Op, most) }) {
			s.fold = f.Op
			copyTo(to, in)
			if l, most := s.overNodes(); l != nil && (l.inOrder || f.AnyOrder) {
				s.allreduceOverNodes(l, most, to, scratch, f)
			} else {
				s.rootless(to, scratch, f)
			}
		}
	}
}

// rootless folds to without a root. Before long buffers are folded in parts, all ranks agree on the length
// by a length header.
func (s *Schedule) rootless(to, scratch []byte, f Fold) {
	h, m := cubeAt(s.w.Size(), s.w.Rank(), same), s.menu()
	by, unit := h.folding(m, len(to), f)
	if by != m.First() || len(to) == headerLen && !m.One() {
		m := s.headers()
		s.add(stepAgreed, 0, to, s.recursiveDoubling(h, m[0].set(len(to), unit), m[1][:], stepSame))
	}
	s.foldAll(h, by, to, scratch, f)
}

// folding returns the algorithm for a buffer of a length, and the length of the elements at whose boundaries the
// buffer is split; 0: it is not split.
func (h *cube) folding(m *choose.Menu, length int, f Fold) (by choose.Algorithm, unit int) {
	if by = m.At(length); by != choose.Doubling && f.Unit > 0 && length/f.Unit >= h.size {
		return by, f.Unit
	}
	return choose.Doubling, 0
}

// foldAll folds to of all ranks.
func (s *Schedule) foldAll(h cube, by choose.Algorithm, to, scratch []byte, f Fold) {
	if by == choose.Halving {
		s.halvingDoubling(h, to, scratch, f)
	} else {
		to = s.recursiveDoubling(h, to, scratch, stepFold)
	}
	s.result.from = to
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
