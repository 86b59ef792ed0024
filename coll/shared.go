package coll

import (
	"errors"
	"fmt"

	"github.com/banyan-hpc/banyan/coll/sm"
	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/p2p"
)

// Where all ranks share memory, a blocking barrier, bcast, allreduce or allgather of few bytes needs no
// messages: see package sm. A communicator finds out whether it can by messages, before its second
// operation of these that is not a bcast, and again after each validate. So one that is used once costs
// nothing, and no root waits where it did not before.
//
// An operation that is too long for the memory shows that there, and goes by messages: the other ranks
// learn of it before they wait for anything else, also if their buffers are short. So lengths that do
// not fit are ft.ErrArgument as ever.

// findAt is the number of the operation before which the communicator finds out.
const findAt = 2

// quick gives the segment of a blocking operation that needs no check, no agreement and no memory of
// its own; nil: it needs a schedule.
func (o *Comm) quick(c *p2p.Comm, call *Call) *sm.Segment {
	if call.Agree != nil || o.grown == nil || o.segment == nil || !o.free() || c.Ready("") != nil || o.on != c.Coll() {
		return nil
	}
	return o.segment
}

// ended is the outcome of a blocking operation without a schedule. After a failure ranks that wait for
// this one learn of it.
func ended(c *p2p.Comm, k Kind, err error) error {
	if err == nil || p2p.During(k.String(), err) {
		return err
	}
	if !errors.Is(err, ft.ErrArgument) {
		c.Coll().GiveUp()
	}
	return &failure{k.String(), err}
}

// shared gives the segment of a blocking operation, or nil. It is called once for each, at all ranks.
func (s *Schedule) shared() *sm.Segment {
	g := s.o.grown
	if !s.blocks || g.segment != nil {
		return g.segment
	}
	if g.calls++; g.calls != findAt || s.o.World == nil || s.o.Shared == nil || !s.o.Shared.Can(s.w) {
		return nil
	}
	var err error
	if s.call.Unaware {
		g.segment, err = sm.Find[p2p.Unaware](s.o.Shared, s.w)
	} else {
		g.segment, err = sm.Find[p2p.Aware](s.o.Shared, s.w)
	}
	if err != nil {
		s.fail(err)
		s.ended = true
	}
	return g.segment
}

// sharedBarrier is barrier in shared memory; false: it goes by messages.
func (s *Schedule) sharedBarrier() (done bool) {
	g := s.shared()
	if s.ended || g == nil || !s.blocks {
		return s.ended
	}
	if err := g.Await(); err != nil {
		s.fail(err)
	}
	return true
}

// sharedBcast is bcast in shared memory; false: it goes by messages. It finds nothing out: a root need
// not wait for the other ranks.
func (s *Schedule) sharedBcast(buf []byte, root int) (done bool) {
	if !s.blocks || s.o.grown.segment == nil {
		return false
	}
	done, err := bcastIn(s.o.grown.segment, s.w, buf, root)
	if err != nil {
		s.fail(err)
	}
	return done
}

func bcastIn(g *sm.Segment, w *p2p.Comm, buf []byte, root int) (done bool, _ error) {
	laid, length, err := g.Spread(root, buf)
	switch {
	case err != nil:
		return true, err
	case length == sm.Elsewhere:
		return false, nil
	case w.Rank() == root:
		return true, nil
	}
	copy(buf, laid)
	return true, sameLength(w, root, length, len(buf))
}

// sharedAllreduce folds the froms of all ranks into to, which may be the same memory, in shared memory;
// scratch is as long. False: it goes by messages.
func (s *Schedule) sharedAllreduce(from, to, scratch []byte, op Op) (done bool) {
	return s.meet(from, func(rank int, part []byte) {
		if rank == 0 {
			copy(to, part)
		} else {
			copy(scratch, part)
			op(to, scratch)
		}
	})
}

// sharedAllgather puts mine of all ranks into dense in shared memory; false: it goes by messages.
func (s *Schedule) sharedAllgather(mine, dense []byte) (done bool) {
	return s.meet(mine, func(rank int, part []byte) { copy(dense[rank*len(mine):], part) })
}

// meet brings this rank's part to a segment and takes the parts of all in the order of ranks; false:
// they go by messages.
func (s *Schedule) meet(mine []byte, take func(rank int, part []byte)) (done bool) {
	g := s.shared()
	if s.ended || g == nil || !s.blocks {
		return s.ended
	}
	elsewhere, err := g.Meet(mine)
	if elsewhere {
		return false
	}
	for rank := 0; err == nil && rank < s.w.Size(); rank++ {
		part, length := g.Brought(rank)
		if err = sameLength(s.w, rank, length, len(mine)); err == nil {
			take(rank, part)
		}
	}
	if err != nil {
		s.fail(err)
	}
	return true
}

// sameLength checks the length that a rank has brought.
func sameLength(w *p2p.Comm, rank, length, want int) error {
	if length == want {
		return nil
	}
	return fmt.Errorf("%s: %w: rank %d came with %d bytes, want %d: all ranks must call with the same length",
		w.Name(), ft.ErrArgument, w.Said(rank), length, want)
}
