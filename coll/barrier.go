package coll

import (
	"slices"

	"github.com/banyan-hpc/banyan/coll/choose"
	"github.com/banyan-hpc/banyan/coll/sm"
)

// barrier goes up a tree and down again, or is a dissemination: in step k each rank sends to the rank 2^k above and
// receives from the one 2^k below.
func (s *Schedule) barrier() {
	switch {
	case s.ended:
		return
	case s.between():
		s.disseminate(s.w.Rank(), s.w.Size(), same)
		return
	case !s.free():
		s.roundTrip(s.o.to(0))
		return
	case s.alone(func(g *sm.Segment, _ int) (bool, error) { return g.Barrier(Barrier.op()) }):
		return
	}
	if l, _ := s.overNodes(); l != nil {
		s.barrierOverNodes(l)
	} else if s.menu().First() == choose.Binomial {
		s.roundTrip(s.o.to(0))
	} else {
		s.disseminate(s.w.Rank(), s.w.Size(), same)
	}
}

// disseminate has n ranks wait for each other, of which this is the one at a place; rank is that at another.
func (s *Schedule) disseminate(me, n int, rank func(place int) int) {
	for d := 1; d < n; d *= 2 {
		s.exchange(rank((me+d)%n), nil, rank((me+n-d)%n), nil)
	}
}

func same(rank int) int { return rank }

// roundTrip goes up the tree and down again.
func (s *Schedule) roundTrip(r *route) {
	for _, child := range slices.Backward(r.children) { // the smallest subtree is ready first
		s.add(stepRecv, child, nil, nil)
	}
	s.wait()
	if r.parent >= 0 {
		s.exchange(r.parent, nil, r.parent, nil)
	}
	for _, child := range r.children {
		s.add(stepSend, child, nil, nil)
	}
	s.wait()
}
