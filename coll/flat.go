package coll

import (
	"cmp"
	"encoding/binary"
	"fmt"

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

// flat gives the memory in which the next operation of w goes, or nil. It is asked once for each, at all ranks.
func flat[M p2p.Mode](w *p2p.Comm) (*p2p.Flat, error) {
	if f := w.Flat(); f != nil {
		return f, nil
	}
	if !w.FlatDue(flatFrom) {
		return nil, nil
	}
	err := findFlat[M](w)
	return w.Flat(), err
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
		if _, err := recvAll[M](w, b[:], child, tagFlat); err != nil {
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
		if _, err := recvAll[M](w, b[:], me-low, tagFlat); err != nil {
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

// flatBarrier is Barrier in shared memory; false: it goes by messages.
func flatBarrier[M p2p.Mode](w *p2p.Comm) (bool, error) {
	f, err := flat[M](w)
	if f == nil || err != nil {
		return err != nil, err
	}
	return true, f.Await()
}

// flatBcast is bcast in shared memory; false: it goes by messages. It finds nothing out: a root need not wait for
// the others.
func flatBcast[M p2p.Mode](w *p2p.Comm, buf []byte, root int) (bool, error) {
	f := w.Flat()
	if f == nil {
		return false, nil
	}
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
	return true, fits(w, root, length, len(buf))
}

// flatAllreduce folds everybody's from into to, which may be the same memory, in shared memory; scratch is as long. False: it goes by
// messages.
func flatAllreduce[M p2p.Mode](w *p2p.Comm, from, to, scratch []byte, op Op) (bool, error) {
	f, err := flat[M](w)
	if f == nil || err != nil {
		return err != nil, err
	}
	if elsewhere, err := f.Meet(from); elsewhere || err != nil {
		return !elsewhere, err
	}
	for rank := range w.Size() {
		part, length := f.Brought(rank)
		if err := fits(w, rank, length, len(from)); err != nil {
			return true, err
		}
		if rank == 0 {
			copy(to, part)
		} else {
			copy(scratch, part)
			op(to, scratch)
		}
	}
	return true, nil
}

// flatAllgather puts everybody's mine into dense in shared memory; false: it goes by messages.
func flatAllgather[M p2p.Mode](w *p2p.Comm, mine, dense []byte) (bool, error) {
	f, err := flat[M](w)
	if f == nil || err != nil {
		return err != nil, err
	}
	if elsewhere, err := f.Meet(mine); elsewhere || err != nil {
		return !elsewhere, err
	}
	for rank := range w.Size() {
		part, length := f.Brought(rank)
		if err := fits(w, rank, length, len(mine)); err != nil {
			return true, err
		}
		copy(dense[rank*length:], part)
	}
	return true, nil
}

// fits is sameLength for what a rank has brought.
func fits(w *p2p.Comm, rank, length, want int) error {
	if length == want {
		return nil
	}
	return fmt.Errorf("%s: %w: rank %d came with %d bytes, want %d: all ranks must call with the same length",
		w.Name(), ft.ErrArgument, w.OriginalRank(rank), length, want)
}
