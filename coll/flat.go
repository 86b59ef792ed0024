package coll

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"

	"github.com/banyan-hpc/banyan/fabric/board"
	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/p2p"
)

// Where all ranks share memory, barrier, bcast, allreduce and allgather of few bytes need no messages: see p2p.Flat. Whether they can is found out
// together, by messages, before the second one of a communicator that is not a bcast, so that one which is used once costs
// nothing, and no root waits where it did not; and anew after each validate.
//
// An operation that is too long for it says so there, and goes by messages: the others learn of it before they wait for
// something else, also if what they were called with is short. So lengths that do not fit are ft.ErrArgument as ever.

// flatFrom is the number of the operation before which it is found out.
const flatFrom = 2

// tagFlat is the tag of the messages that find out whether ranks share memory.
const tagFlat = p2p.Blocking | 15

// shared gives the memory of a blocking operation that needs no check, no agreement and no memory of
// its own; nil: it needs a schedule.
func (o *Comm) shared(c *p2p.Comm, call *Call) *p2p.Flat {
	if call.Agree != nil || o.grown == nil || !o.free() || c.Local() != nil || c.Ready("") != nil {
		return nil
	}
	w := c.Coll()
	if o.on != w {
		return nil
	}
	return w.Flat()
}

// ended is the error of a blocking operation without a schedule. After a failure ranks that wait for
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

// flat gives the memory of the next operation, or nil. It is asked once for each, at all ranks.
func (s *Schedule) flat() *p2p.Flat {
	if f := s.w.Flat(); f != nil || !s.w.FlatDue(flatFrom) {
		return f
	}
	var err error
	if s.call.Unaware {
		err = findFlat[p2p.Unaware](s.w)
	} else {
		err = findFlat[p2p.Aware](s.w)
	}
	if err != nil {
		s.fail(err)
	}
	return s.w.Flat()
}

// findFlat finds out whether all can use memory of rank 0, which makes it then. What rank 0 hears comes up a binomial tree, and the memory's name
// goes down.
func findFlat[M p2p.Mode](w *p2p.Comm) error {
	n, me := w.Size(), w.Rank()
	var around []int
	low := lowest(me, n)
	for bit := 1; bit < low && me+bit < n; bit *= 2 {
		around = append(around, me+bit)
	}
	below := around
	if me != 0 {
		around = append(around, me-low)
	}
	can := w.OffersFlat()
	var b [8]byte
	for _, child := range below {
		if err := recvName[M](w, b[:], child); err != nil {
			return err
		}
		can = can && b[0] == 1
	}
	clear(b[:])
	if can {
		b[0] = 1
	}
	switch {
	case me != 0:
		if err := p2p.Send[M](w, b[:], me-low, tagFlat); err != nil {
			return err
		}
		if err := recvName[M](w, b[:], me-low); err != nil {
			return err
		}
	case can:
		binary.LittleEndian.PutUint64(b[:], w.MakeFlat())
	}
	var err error
	for _, child := range below {
		err = cmp.Or(err, p2p.Send[M](w, b[:], child, tagFlat))
	}
	if name := binary.LittleEndian.Uint64(b[:]); name != 0 && err == nil {
		err = w.OpenFlat(name, around)
	}
	return err
}

// recvName receives what is as long as b.
func recvName[M p2p.Mode](w *p2p.Comm, b []byte, src int) error {
	st, err := p2p.Recv[M](w, b, src, tagFlat)
	_, err = fit(w, st, err, len(b))
	return err
}

// lowest is the lowest bit of v; for the root it is beyond all ranks.
func lowest(v, n int) int {
	if v == 0 {
		return 1 << bits.Len(uint(n-1))
	}
	return v & -v
}

// flatBarrier is barrier in shared memory; false: it goes by messages.
func (s *Schedule) flatBarrier() (done bool) {
	if !s.blocks {
		return false
	}
	f := s.flat()
	if s.ended || f == nil {
		return s.ended
	}
	if err := f.Await(); err != nil {
		s.fail(err)
	}
	return true
}

// flatBcast is bcast in shared memory; false: it goes by messages. It finds nothing out: a root need
// not wait for the other ranks.
func (s *Schedule) flatBcast(buf []byte, root int) (done bool) {
	f := s.w.Flat()
	if !s.blocks || f == nil {
		return false
	}
	done, err := flatBcast(f, s.w, buf, root)
	if err != nil {
		s.fail(err)
	}
	return done
}

func flatBcast(f *p2p.Flat, w *p2p.Comm, buf []byte, root int) (done bool, _ error) {
	laid, length, err := f.Spread(root, buf)
	switch {
	case err != nil:
		return true, err
	case length == board.Elsewhere:
		return false, nil
	case w.Rank() == root:
		return true, nil
	}
	copy(buf, laid)
	return true, sameLength(w, root, length, len(buf))
}

// flatAllreduce folds the froms of all ranks into to, which may be the same memory, in shared memory;
// scratch is as long. False: it goes by messages.
func (s *Schedule) flatAllreduce(from, to, scratch []byte, op Op) (done bool) {
	return s.flatMeet(from, func(rank int, part []byte) {
		if rank == 0 {
			copy(to, part)
		} else {
			copy(scratch, part)
			op(to, scratch)
		}
	})
}

// flatAllgather puts mine of all ranks into dense in shared memory; false: it goes by messages.
func (s *Schedule) flatAllgather(mine, dense []byte) (done bool) {
	return s.flatMeet(mine, func(rank int, part []byte) { copy(dense[rank*len(mine):], part) })
}

// flatMeet brings this rank's part to all ranks and takes theirs in the order of ranks.
func (s *Schedule) flatMeet(mine []byte, take func(rank int, part []byte)) (done bool) {
	if !s.blocks {
		return false
	}
	f := s.flat()
	if s.ended || f == nil {
		return s.ended
	}
	elsewhere, err := f.Meet(mine)
	if elsewhere {
		return false
	}
	for rank := 0; err == nil && rank < s.w.Size(); rank++ {
		part, length := f.Brought(rank)
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
