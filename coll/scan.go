package coll

import (
	"fmt"
	"math/bits"

	"github.com/banyan-hpc/banyan/coll/choose"
	"github.com/banyan-hpc/banyan/ft"
)

// reduceScatter sends each rank its block and folds the received ones in the order of ranks. Each rank sends and
// receives the minimal number of bytes of any algorithm, and all messages are under way at once. Few bytes use shared memory.
func (s *Schedule) reduceScatter(from Blocks, a *Args) {
	out := a.Out
	if s.staged() {
		out = s.mem.bytes(len(out))
	}
	if s.inMemory(func(m *inMemory) (bool, error) { return m.reduceScatter(a, out) }) {
		s.result = result{to: a.Out, from: out}
		return
	}
	s.fold = a.Fold.Op
	n := s.c.Size()
	to := equal(s.mem.bytes(n*len(out)), n)
	s.pairwise(from.At, &to)
	acc := to.At(s.w.OriginalRank(0))
	for rank := 1; rank < s.w.Size(); rank++ {
		s.add(stepFold, 0, acc, to.At(s.w.OriginalRank(rank)))
	}
	s.result = result{to: a.Out, from: acc}
}

// divided are blocks of so many elements for each rank, one after the other.
func (s *Schedule) divided(flat []byte, counts []int, unit int) Blocks {
	if counts == nil { // the arguments are wrong
		return Blocks{}
	}
	s.places = append(s.places[:0], 0)
	total := 0
	for _, count := range counts {
		total += count * unit
		s.places = append(s.places, total)
	}
	return Blocks{flat: flat, at: s.places}
}

// scan folds the buffers of the ranks up to this one, or below it.
func (s *Schedule) scan(in, out []byte, f Fold, exclusive bool) {
	s.fold = f.Op
	if s.free() && s.menu().At(len(in)) == choose.Chain {
		s.scanAlong(in, out, exclusive)
		return
	}
	s.scanByDoubling(in, out, exclusive)
}

// scanAlong has each rank fold its buffer with the fold of those below, which it hands to the rank above. Where
// scanByDoubling has other messages there are empty ones, so that ranks with different lengths find out.
func (s *Schedule) scanAlong(in, out []byte, exclusive bool) {
	n, me, lowest, further := s.w.Size(), s.w.Rank(), 0, 2
	if exclusive {
		lowest, further = 1, 1
	}
	below, above := out, in // the folds of the ranks below, and up to this one
	given, place := equal(in, 1), equal(out, 1)
	apart := s.staged() || given.overlap(1, &place, 1)
	switch {
	case me == 0:
	case !exclusive:
		if apart {
			below = s.mem.bytes(len(in))
		}
		above = below
	case apart:
		below, above = s.mem.two(len(in))
	case me+1 < n:
		above = s.mem.bytes(len(in))
	}
	if me > 0 {
		s.add(stepRecv, me-1, below, nil)
		s.wait()
		if exclusive && me+1 < n {
			s.add(stepCopy, 0, above, below)
		}
		if !exclusive || me+1 < n {
			s.add(stepFold, 0, above, in)
		}
	}
	if me+1 < n {
		s.add(stepSend, me+1, nil, above)
	}
	for d := further; d < n-lowest; d *= 2 {
		if me >= lowest && me+d < n {
			s.add(stepSend, me+d, nil, nil)
		}
		if me-d >= lowest {
			s.add(stepRecv, me-d, nil, nil)
		}
	}
	s.wait()
	switch {
	case !exclusive:
		s.result = result{to: out, from: above}
	case me > 0:
		s.result = result{to: out, from: below}
	}
}

// scanByDoubling has each rank send its fold to the rank 2^k above in step k, which doubles the number of ranks in that
// rank's fold (Hillis and Steele). An exclusive scan is an inclusive one among the ranks without the lowest, each of which
// begins with the buffer of the rank below.
//
// A received fold is combined in its own buffer. There are two such buffers in turn, and the last one is out.
func (s *Schedule) scanByDoubling(in, out []byte, exclusive bool) {
	n, me, lowest := s.w.Size(), s.w.Rank(), 0
	if exclusive {
		lowest = 1
	}
	got, next := s.toFold(out, len(in), len(in))
	given, first := equal(in, 1), equal(got, 1)
	if times := lowest + bits.Len(uint(max(0, me-lowest))); times%2 == 0 || given.overlap(1, &first, 1) {
		got, next = next, got
	}
	acc := in
	if exclusive {
		s.pass(in, me+1, me-1, got, 0)
		if me == 0 {
			return
		}
		acc, got, next = got, next, got
	}
	for d := 1; d < n-lowest; d *= 2 {
		if s.pass(acc, me+d, me-d, got, lowest) {
			s.add(stepFold, 0, got, acc)
			acc, got, next = got, next, got
		}
	}
	s.result = result{to: out, from: acc}
}

// pass sends to one rank and receives from another, if these are not below lowest. It reports whether it
// receives.
func (s *Schedule) pass(out []byte, dst, src int, in []byte, lowest int) bool {
	sends, receives := dst < s.w.Size() && s.w.Rank() >= lowest, src >= lowest
	switch {
	case sends && receives:
		s.exchange(dst, out, src, in)
	case sends:
		s.add(stepSend, dst, nil, out)
		s.wait()
	case receives:
		s.add(stepRecv, src, in, nil)
		s.wait()
	}
	return receives
}

// wrongFold gives the error of wrong arguments of an operation that folds.
func (a *Args) wrongFold(k Kind, n, me int) error {
	if a.Fold.Op == nil {
		return fmt.Errorf("%w: no operation to fold with", ft.ErrArgument)
	}
	if k == ReduceScatter {
		return a.wrongCounts(n, me)
	}
	want := len(a.Out)
	if k == ReduceScatterBlock {
		want *= n
	}
	if len(a.In) == want {
		return nil
	}
	return fmt.Errorf("%w: %d bytes to send and %d to receive among %d ranks: want %d to send",
		ft.ErrArgument, len(a.In), len(a.Out), n, want)
}

// wrongCounts returns an error unless the counts divide the send buffer.
func (a *Args) wrongCounts(n, me int) error {
	if len(a.Counts) != n {
		return fmt.Errorf("%w: %d counts for %d ranks: give one for each", ft.ErrArgument, len(a.Counts), n)
	}
	left := len(a.In) / a.unit()
	for rank, count := range a.Counts {
		if count < 0 || count > left {
			return fmt.Errorf("%w: count %d of rank %d, where %d elements are left", ft.ErrArgument, count, rank, left)
		}
		left -= count
	}
	if left > 0 || a.Counts[me]*a.unit() != len(a.Out) {
		return fmt.Errorf("%w: counts leave %d elements, and this rank has %d bytes for %d elements",
			ft.ErrArgument, left, len(a.Out), a.Counts[me])
	}
	return nil
}

// unit is the length of an element in bytes.
func (a *Args) unit() int { return max(1, a.Fold.Unit) }
