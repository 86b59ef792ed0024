package coll

import (
	"errors"

	"github.com/banyan-hpc/banyan/coll/choose"
	"github.com/banyan-hpc/banyan/coll/sm"
	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/p2p"
)

// If all ranks share memory, a blocking barrier, bcast, allreduce, allgather(v), alltoall(v) or reduce-scatter of few
// bytes needs no messages: see package sm. If the ranks of each node do, it has two levels: see levels.go. A
// communicator finds out by messages whether its ranks share memory, before its second operation of these that is
// not a bcast, and again after each validate. So a communicator with a single operation pays nothing, and no root
// waits that would not wait anyway.
//
// If an operation is too long for the memory, the memory shows that, and messages replace it: the other ranks detect
// it before they wait for anything else, also if their buffers are short. So lengths that do not fit are
// ft.ErrArgument as always.

// findAt is the number of the operation before which the communicator finds out.
const findAt = 2

// quick gives the segment of a plain blocking operation that needs no check and no memory of
// its own, and the longest length that goes there; nil: it needs a schedule.
func (o *Comm) quick(c *p2p.Comm, op choose.Op, plain bool) (g *sm.Segment, most int) {
	if !plain || o.grown == nil || o.most[op] == 0 || !o.free() || c.Ready() != nil || o.on != c.Coll() {
		return nil, 0
	}
	return o.segment, o.most[op]
}

// ended is the outcome of a blocking operation without a schedule. After a failure ranks that wait for
// this one learn of it.
func ended(c *p2p.Comm, k Kind, root int, err error) error {
	if err == nil {
		return nil
	}
	if !p2p.OnlyRevoked(err) && !errors.Is(err, ft.ErrArgument) {
		c.Coll().GiveUp()
	}
	return failure(c, k, true, root, err)
}

// shared gives the segment of a blocking operation, or nil. It is called once for each, at all ranks.
// For a bcast it finds nothing out: a root need not wait for the other ranks.
func (s *Schedule) shared() *sm.Segment {
	g := s.o.grown
	if g.segment != nil || s.kind == Bcast {
		return g.segment
	}
	if g.calls++; g.calls != findAt || s.o.World == nil || s.o.Shared == nil {
		return nil
	}
	if err := s.find(); err != nil {
		s.fail(err)
		s.ended = true
	}
	return g.segment
}

// alone runs a blocking operation in shared memory, where the longest length that goes there is most; false: it goes by
// messages.
func (s *Schedule) alone(do func(g *sm.Segment, most int) (done bool, err error)) (done bool) {
	m := s.menu()
	if s.tried || !s.blocks || m.Memory < 0 && m.Levels < 0 {
		return false
	}
	g := s.shared()
	if s.ended || g == nil || m.Memory < 0 {
		return s.ended
	}
	s.tried, s.o.most[choices[s.kind]-1] = true, m.Memory
	done, err := do(g, m.Memory)
	if err != nil {
		s.fail(err)
	}
	return done
}
