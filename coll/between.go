package coll

import (
	"fmt"

	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/p2p"
)

// Collectives of intercommunicators (MPI 4.1, 6.2.2 and 6.2.3). They run on one communicator of both sides, in
// which the ranks of one side follow those of the other. The data of a side go up the binomial tree of its
// ranks, in their order, to its lowest rank, from there to the other side, and down the tree there; so data
// cross between the sides once. With a root the tree of the other side is attached to the root. Blocks of
// different lengths, and those of an alltoall, go straight to their ranks, as on other communicators.

// sides are those of an intercommunicator, in the ranks of the communicator to send on. On other
// communicators each side has all ranks.
type sides struct{ near, far span }

// sidesOf returns the sides of c, whose collectives send on w.
func sidesOf(c, w *p2p.Comm) sides {
	all := span{0, w.Size()}
	if c.Local() == nil {
		return sides{all, all}
	}
	from, to := c.Side()
	if from == 0 {
		return sides{span{0, to}, span{to, all.to}}
	}
	return sides{span{from, to}, span{0, from}}
}

func (p span) size() int { return p.to - p.from }

// turn gives the rank d places above that of a rank, or below if it is negative, in a ring of these. They
// need not have that rank.
func (p span) turn(rank, d int) int {
	n := p.size()
	return p.from + (rank%n+n+d)%n
}

// between reports whether the operation is one of an intercommunicator.
func (s *Schedule) between() bool { return s.c.Local() != nil }

// spans reports whether MPI has the operation on intercommunicators.
func (k Kind) spans() bool { return k < Scan || k == ReduceScatterBlock }

var errInter = fmt.Errorf("%w: not on an intercommunicator", ft.ErrArgument)

// counted returns the number of ranks whose blocks a rank sends or receives in an operation, and its own rank
// among them: p2p.Root if it is on the other side.
func counted(c *p2p.Comm, k Kind) (n, me int) {
	if c.Local() == nil || k == ReduceScatter || k == ReduceScatterBlock {
		return c.Size(), c.Rank()
	}
	return c.RemoteSize(), p2p.Root
}

// within gives this rank's place in the tree of its side. Its lowest rank has the parent above; -1: none.
func (s *Schedule) within(above int) *route {
	r, near := s.ownRoute(), s.o.near
	me := s.w.Rank() - near.from
	r.order, r.first, r.last = r.order[:0], r.first[:0], r.last[:0]
	r.neighbours(me, near.size())
	r.arrangeNeighbours(me, near.size())
	if r.parent += near.from; me == 0 {
		r.parent = above
	}
	for i := range r.children {
		r.children[i] += near.from
	}
	return r
}

// hanging gives this rank's place in the tree of an operation with a root, which is on the other side.
func (s *Schedule) hanging(root int) *route {
	if s.w.Rank() != root {
		return s.within(root)
	}
	r := s.ownRoute()
	if r.parent, r.children = -1, r.children[:0]; s.o.far.size() > 0 {
		r.children = append(r.children, s.o.far.from)
	}
	return r
}

// cross exchanges the data of the two sides between their lowest ranks.
func (s *Schedule) cross(out, in []byte) {
	if s.w.Rank() == s.o.near.from {
		s.exchange(s.o.far.from, out, s.o.far.from, in)
	}
}

// noneThere reports whether all ranks of the other side are agreed to have failed: there is nothing to do.
func (s *Schedule) noneThere() bool { return s.o.far.size() == 0 }

// reduceBetween folds up the tree of one side, whose lowest rank sends the result to the root.
func (s *Schedule) reduceBetween(in, out []byte, f Fold, root int) {
	switch me := s.w.Rank(); {
	case me != root:
		acc, _ := s.foldSide(s.within(-1), in, f)
		if me == s.o.near.from {
			s.add(stepSend, root, nil, acc)
			s.wait()
		}
	case !s.noneThere():
		to := out
		if s.staged() {
			to = s.mem.bytes(len(out))
		}
		s.add(stepRecv, s.o.far.from, to, nil)
		s.wait()
		s.result = result{to: out, from: to}
	}
}

// foldSide folds up the tree of this side: at its lowest rank acc has the result then. Spare is as much memory.
func (s *Schedule) foldSide(r *route, in []byte, f Fold) (acc, spare []byte) {
	s.fold = f.Op
	acc, spare = s.mem.two(len(in))
	s.climbIn(r, in, acc, spare, f)
	return acc, spare
}

// allreduceBetween gives each side the fold of the other side.
func (s *Schedule) allreduceBetween(in, out []byte, f Fold) {
	if s.noneThere() {
		return
	}
	r := s.within(-1)
	acc, to := s.foldSide(r, in, f)
	if !s.staged() {
		to = out
	}
	s.cross(acc, to)
	s.spread(r, to)
	s.result = result{to: out, from: to}
}

// reduceScatterBetween gives each rank its part of the fold of the other side. A rank has the lengths of its own
// side alone, so the whole fold is sent to its lowest rank.
func (s *Schedule) reduceScatterBetween(a *Args) {
	if s.noneThere() {
		return
	}
	w, near := s.w, s.o.near
	acc, got := s.foldSide(s.within(-1), a.In, a.Fold)
	s.cross(acc, got)
	if w.Rank() != near.from {
		into := a.Out
		if s.staged() {
			into = got[:len(into)]
		}
		s.add(stepRecv, near.from, into, nil)
		s.wait()
		s.result = result{to: a.Out, from: into}
		return
	}
	parts := equal(got, s.c.Size())
	if s.kind == ReduceScatter {
		parts = s.divided(got, a.Counts, a.unit())
	}
	for rank := near.from + 1; rank < near.to; rank++ {
		s.add(stepSend, rank, nil, parts.At(w.OriginalRank(rank)))
	}
	s.wait()
	s.result = result{to: a.Out, from: parts.At(s.c.Rank())}
}

// allgatherBetween gathers at the lowest ranks of the sides, which exchange the blocks.
func (s *Schedule) allgatherBetween(mine, all []byte) {
	if mine, all = s.wholeBlocks(mine, all); s.noneThere() {
		return
	}
	r := s.within(-1)
	dense, stage := s.fromFar(all, len(r.order)*len(mine))
	b := blocks{s: s, r: r, size: len(mine), stage: stage}
	s.upward(&b, mine, false)
	s.cross(stage, dense)
	s.spread(r, dense)
}

// gatherBetween collects blocks up the tree that hangs on the root.
func (s *Schedule) gatherBetween(mine, all []byte, root int) {
	if s.w.Rank() != root {
		b := s.blocksOn(s.within(root), mine, nil)
		s.upward(&b, mine, false)
		return
	}
	if _, all = s.wholeBlocks(nil, all); s.noneThere() {
		return
	}
	dense, _ := s.fromFar(all, 0)
	s.add(stepRecv, s.o.far.from, dense, nil)
	s.wait()
}

// scatterBetween sends blocks down the tree that hangs on the root.
func (s *Schedule) scatterBetween(all, mine []byte, root int) {
	if s.w.Rank() != root {
		b := s.blocksOn(s.within(root), mine, nil)
		s.deal(&b, nil, mine)
		return
	}
	if _, all = s.wholeBlocks(nil, all); s.noneThere() {
		return
	}
	out, far := all, s.o.far
	if n := s.c.RemoteSize(); far.size() < n {
		blocks := equal(all, n)
		out = s.mem.bytes(far.size() * blocks.size)
		for i := range far.size() {
			copy(out[i*blocks.size:], blocks.At(s.w.OriginalRank(far.from+i)))
		}
	}
	s.add(stepSend, far.from, nil, out)
	s.wait()
}

// wholeBlocks gives the buffers with which a rank takes part: none unless all has blocks of one length for each rank
// of the other side.
func (s *Schedule) wholeBlocks(mine, all []byte) (_, _ []byte) {
	if n := s.c.RemoteSize(); len(all)%n != 0 {
		s.misuse(fmt.Errorf("%w: %d bytes are no blocks of one length for the %d ranks of the other side",
			ft.ErrArgument, len(all), n))
		return nil, nil
	}
	return mine, all
}

// fromFar is where the blocks of the other side come, in the order of its remaining ranks: the caller's all, or
// memory apart, from which the caller gets them. More is other memory of a length.
func (s *Schedule) fromFar(all []byte, more int) (dense, _ []byte) {
	n, far := s.c.RemoteSize(), s.o.far
	if far.size() == n && !s.staged() {
		return all, s.mem.bytes(more)
	}
	block := len(all) / n
	m := s.mem.bytes(more + far.size()*block)
	s.order = s.order[:0]
	for rank := far.from; rank < far.to; rank++ {
		s.order = append(s.order, s.w.OriginalRank(rank))
	}
	s.result = result{to: all, from: m[more:], order: s.order, block: block}
	return m[more:], m[:more]
}
