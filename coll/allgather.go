package coll

import "github.com/banyan-hpc/banyan/coll/sm"

// mostToAll is the largest number of ranks of which each sends its block straight to all others. Of 32 it takes 1.4 of the
// time of recursive doubling for 1 KiB, and 0.6 for 8 KiB; of 64 twice the time.
const mostToAll = 16

// allgather gathers at the lowest rank over a chosen tree and broadcasts from there. Else it needs no
// root: it goes straight from each rank to each, or by recursive doubling, or by Bruck's algorithm where the number
// of ranks is no power of two.
func (s *Schedule) allgather(mine, all []byte) {
	if s.ended {
		return
	}
	if s.between() {
		s.allgatherBetween(mine, all)
		return
	}
	n, size := s.w.Size(), len(mine)
	var dense []byte // the blocks by the ranks of w
	if !s.free() {
		dense = s.overTree(mine)
	} else {
		if dense = all[:min(len(all), n*size)]; s.staged() || n < s.c.Size() {
			dense = s.mem.bytes(n * size)
		}
		switch {
		case s.alone(func(g *sm.Segment) (bool, error) { return g.Allgather(mine, dense) }):
		case n <= mostToAll && s.o.straight():
			copy(dense[s.w.Rank()*size:], mine)
			s.toAll(func(src int) []byte { return dense[src*size:][:size] }, func(int) []byte { return mine })
		case n&(n-1) == 0:
			s.recursiveDoublingAllgather(mine, dense)
		default:
			dense = s.bruck(mine)
		}
	}
	s.result = result{to: all, from: dense}
	if n < s.c.Size() {
		s.order = s.order[:0]
		for rank := range n {
			s.order = append(s.order, s.w.OriginalRank(rank))
		}
		s.result.order, s.result.block = s.order, size
	}
}

// recursiveDoublingAllgather has neighbours, then pairs, then fours exchange their blocks. The number
// of ranks is a power of two.
func (s *Schedule) recursiveDoublingAllgather(mine, dense []byte) {
	me, size := s.w.Rank(), len(mine)
	copy(dense[me*size:], mine)
	for d := 1; d < s.w.Size(); d *= 2 {
		have, with := me&^(d-1), me^d
		s.exchange(with, dense[have*size:(have+d)*size], with, dense[(have^d)*size:((have^d)+d)*size])
	}
}

// bruck has each rank, in step k, send its blocks to the rank 2^k below: a rank has its own block
// first, then those of the ranks above, and in the end sorts them (Bruck et al.).
func (s *Schedule) bruck(mine []byte) (dense []byte) {
	n, me, size := s.w.Size(), s.w.Rank(), len(mine)
	dense, have := s.mem.two(n * size)
	copy(have, mine)
	for d := 1; d < n; d *= 2 {
		many := min(d, n-d)
		s.exchange((me+n-d)%n, have[:many*size], (me+d)%n, have[d*size:(d+many)*size])
	}
	s.add(stepCopy, 0, dense[me*size:], have[:(n-me)*size])
	s.add(stepCopy, 0, dense, have[(n-me)*size:])
	return dense
}

// overTree gathers at rank 0 and broadcasts from there.
func (s *Schedule) overTree(mine []byte) []byte {
	r := s.o.to(0)
	s.o.arrange(r)
	dense, stage := s.mem.two(s.w.Size() * len(mine))
	b := blocks{s: s, r: r, size: len(mine), stage: stage[:len(r.order)*len(mine)]}
	s.upward(&b, mine, false)
	if r.parent < 0 {
		s.sorted = append(s.sorted[:0], r.order...)
		s.add(stepSort, 0, dense, stage)
	}
	s.spread(r, dense)
	return dense
}
