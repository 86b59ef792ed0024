package coll

import (
	"slices"

	"github.com/banyan-hpc/banyan/coll/sm"
)

// barrier goes up a chosen tree and down again. Else it is a dissemination: in step k each rank sends
// to the rank 2^k above and receives from the one 2^k below.
func (s *Schedule) barrier() {
	switch {
	case s.ended:
		return
	case !s.free():
		s.roundTrip(s.o.to(0))
		return
	case s.alone((*sm.Segment).Barrier):
		return
	}
	n, me := s.w.Size(), s.w.Rank()
	for d := 1; d < n; d *= 2 {
		s.exchange((me+d)%n, nil, (me+n-d)%n, nil)
	}
}

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
