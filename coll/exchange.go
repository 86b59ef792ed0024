package coll

import (
	"cmp"
	"fmt"

	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/p2p"
)

// In most operations of this file a rank has a message for each other one, and no rank passes on those of
// others: so there is no tree, even if chosen. All receives are posted before the first send. The
// sends begin with the next rank, so that not all ranks send to the same one at once. One wait ends all of
// them. Each message has the length that its receiver expects, or the receiver has ft.ErrArgument.

// Args are the arguments of such an operation.
type Args struct {
	In, Out []byte // in one piece
	// From and To are by rank of the communicator.
	From, To Blocks
	Root     int
	Fold     Fold
	Unit     int   // of an Alltoall, the length of an element in bytes; 0: 1
	Counts   []int // of a ReduceScatter, in elements of Fold.Unit bytes, or in bytes
	// Neighbors are those of an operation among neighbours. From and To are in their order then.
	Neighbors Neighbors
}

// Do runs an operation of a kind.
func (o *Comm) Do(c *p2p.Comm, call Call, k Kind, a Args) error {
	call.Wrong = a.check(c, k)
	call = o.compared(c, call)
	done, tried, err := o.quickly(c, call, k, &a)
	if done {
		return ended(c, k, 0, err)
	}
	s := o.blocking(c, k, call)
	s.tried = tried
	s.plan(&a)
	return s.run()
}

// Start is Do of an operation that does not block.
func (o *Comm) Start(c *p2p.Comm, call Call, k Kind, a Args) p2p.Handle {
	call.Wrong = a.check(c, k)
	call = o.comparing(c, call)
	s := o.nonblocking(c, k, call)
	s.plan(&a)
	return s.start()
}

// check gives the error of wrong arguments of a rank, which takes part with no data then.
func (a *Args) check(c *p2p.Comm, k Kind) error {
	n, me := counted(c, k)
	if n == 0 { // no communicator
		return nil
	}
	if k.Rooted() && me != a.Root {
		a.From, a.To = Blocks{}, Blocks{} // only the root's count
		return nil
	}
	wrong := a.wrong(k, n, me)
	if wrong != nil {
		*a = Args{Root: a.Root, Fold: Fold{Op: func(_, _ []byte) {}}, Neighbors: a.Neighbors}
	}
	return wrong
}

func (a *Args) wrong(k Kind, n, me int) error {
	switch k {
	case Alltoall:
		switch {
		case len(a.In) != len(a.Out) && me != p2p.Root:
			return fmt.Errorf("%w: %d bytes to send and %d to receive: give slices of one length",
				ft.ErrArgument, len(a.In), len(a.Out))
		case len(a.In)%(n*max(1, a.Unit)) != 0 || len(a.Out)%(n*max(1, a.Unit)) != 0:
			return fmt.Errorf("%w: %d bytes, or %d, are no blocks of one length for %d ranks", ft.ErrArgument,
				len(a.In), len(a.Out), n)
		}
		return nil
	case Allgatherv, Gatherv:
		return cmp.Or(forEach(&a.To, n), own(&a.To, me, len(a.In)))
	case ReduceScatter, ReduceScatterBlock, Scan, Exscan:
		return a.wrongFold(k, n, me)
	case NeighborAllgather, NeighborAllgatherv, NeighborAlltoall, NeighborAlltoallv:
		return a.wrongNeighbors(k, n)
	case Scatterv:
		return cmp.Or(forEach(&a.From, n), own(&a.From, me, len(a.Out)))
	}
	if err := cmp.Or(forEach(&a.From, n), forEach(&a.To, n)); err != nil {
		return err
	}
	if me == p2p.Root {
		return nil
	}
	return own(&a.To, me, len(a.From.At(me)))
}

// forEach gives an error unless there is a slice for each of n ranks.
func forEach(b *Blocks, n int) error {
	if b.Len() == n {
		return nil
	}
	return fmt.Errorf("%w: %d slices for %d ranks: give one for each", ft.ErrArgument, b.Len(), n)
}

// own gives an error unless this rank's block for itself has the length of the other side.
func own(b *Blocks, me, length int) error {
	if uint(me) >= uint(b.Len()) || len(b.At(me)) == length { // there is none for a rank of the other side
		return nil
	}
	return fmt.Errorf("%w: %d bytes of this rank for itself, and a place of %d: give slices of one length",
		ft.ErrArgument, length, len(b.At(me)))
}

// plan adds the steps of the operation.
func (s *Schedule) plan(a *Args) {
	s.root = a.Root
	if s.ended {
		return
	}
	n := s.c.RemoteSize()
	if s.between() && (s.kind == ReduceScatter || s.kind == ReduceScatterBlock) {
		s.reduceScatterBetween(a)
		return
	}
	switch s.kind {
	case Alltoall:
		s.alltoall(equal(a.In, n), equal(a.Out, n), a.In)
	case Alltoallv:
		s.alltoall(a.From, a.To, nil)
	case Allgatherv:
		s.allgatherv(a.In, a.To)
	case Gatherv:
		s.gatherv(a.In, a.To, a.Root)
	case ReduceScatterBlock:
		s.reduceScatter(equal(a.In, n), a)
	case ReduceScatter:
		s.reduceScatter(s.divided(a.In, a.Counts, a.unit()), a)
	case Scan, Exscan:
		s.scan(a.In, a.Out, a.Fold, s.kind == Exscan)
	case Scatterv:
		s.scatterv(a.From, a.Out, a.Root)
	case NeighborAllgather:
		s.neighborAllgather(&a.Neighbors, a.In, equal(a.Out, len(a.Neighbors.Sources)))
	case NeighborAllgatherv:
		s.neighborAllgather(&a.Neighbors, a.In, a.To)
	case NeighborAlltoall:
		s.neighborAlltoall(&a.Neighbors, equal(a.In, len(a.Neighbors.Dests)), equal(a.Out, len(a.Neighbors.Sources)))
	case NeighborAlltoallv:
		s.neighborAlltoall(&a.Neighbors, a.From, a.To)
	}
}

// alltoall sends each rank its block and receives one from each. Few bytes go through shared memory. Blocks of one length
// lie in all.
func (s *Schedule) alltoall(from, to Blocks, all []byte) {
	if n := s.c.RemoteSize(); s.staged() || from.overlap(n, &to, n) {
		to = s.apart(to)
	}
	if !s.inMemory(func(m *inMemory) (bool, error) {
		if s.kind == Alltoall {
			return m.alltoall(all, from.size, &to)
		}
		return m.alltoallv(&from, &to)
	}) {
		s.pairwise(from.At, &to)
	}
}

// allgatherv sends all ranks the same. Ranks that passed on blocks of others would have to agree on the
// length of each, and would not notice that they do not.
func (s *Schedule) allgatherv(mine []byte, to Blocks) {
	if s.staged() {
		to = s.apart(to)
	}
	if !s.inMemory(func(m *inMemory) (bool, error) { return m.allgatherv(mine, &to) }) {
		s.pairwise(func(int) []byte { return mine }, &to)
	}
}

// gatherv receives at the root from all others. A rank does not know the lengths of the others, so there
// is no tree.
func (s *Schedule) gatherv(mine []byte, to Blocks, root int) {
	if root, left := s.rooted(root); left {
		s.gatherStraight(mine, to, root)
	}
}

// gatherStraight has each rank send its block to the root.
func (s *Schedule) gatherStraight(mine []byte, to Blocks, root int) {
	w := s.w
	if w.Rank() != root {
		s.add(stepSend, root, nil, mine)
		s.wait()
		return
	}
	if s.staged() {
		to = s.apart(to)
	}
	kind := stepIrecv
	if !s.between() && w.Size() == 2 { // one message is awaited as it comes
		kind = stepRecv
	}
	for d := range s.o.far.size() {
		src := s.o.far.turn(root, d)
		place := to.At(w.OriginalRank(src))
		if src == root {
			copy(place, mine)
			continue
		}
		s.add(kind, src, place, nil)
	}
	s.wait()
}

// scatterv has the root send to all others.
func (s *Schedule) scatterv(from Blocks, mine []byte, root int) {
	if root, left := s.rooted(root); left {
		s.scatterStraight(from, mine, root)
	}
}

// scatterStraight has each rank receive its block from the root.
func (s *Schedule) scatterStraight(from Blocks, mine []byte, root int) {
	w := s.w
	if w.Rank() != root {
		into := mine
		if s.staged() {
			into = s.mem.bytes(len(mine))
		}
		s.add(stepRecv, root, into, nil)
		s.wait()
		s.result = result{to: mine, from: into}
		return
	}
	for d := range s.o.far.size() {
		dst := s.o.far.turn(root, d)
		block := from.At(w.OriginalRank(dst))
		if dst == root {
			s.result = result{to: mine, from: block}
			continue
		}
		s.add(stepSend, dst, nil, block)
	}
	s.wait()
}

// pairwise sends out(rank) to each rank and receives its block in place of it.
func (s *Schedule) pairwise(out func(rank int) []byte, to *Blocks) {
	w := s.w
	if !s.between() {
		mine := w.OriginalRank(w.Rank())
		copy(to.At(mine), out(mine))
	}
	s.toAll(func(src int) []byte { return to.At(w.OriginalRank(src)) },
		func(dst int) []byte { return out(w.OriginalRank(dst)) })
}

// toAll receives in(rank) from each other rank and sends it out(rank), by the ranks to send on. On an
// intercommunicator these are the ranks of the other side.
func (s *Schedule) toAll(in, out func(rank int) []byte) {
	me, far := s.w.Rank(), s.o.far
	for d := range far.size() {
		if src := far.turn(me, -d); src != me {
			s.add(stepIrecv, src, in(src), nil)
		}
	}
	for d := range far.size() {
		if dst := far.turn(me, d); dst != me {
			s.add(stepSend, dst, nil, out(dst))
		}
	}
	s.wait()
}

// apart is memory for blocks that the caller gets when the operation has succeeded.
func (s *Schedule) apart(to Blocks) Blocks {
	s.order = s.order[:0]
	for rank := s.o.far.from; rank < s.o.far.to; rank++ {
		s.order = append(s.order, s.w.OriginalRank(rank))
	}
	return s.aside(to, s.c.RemoteSize())
}

// aside returns memory for n blocks; the caller gets the blocks of the ranks in s.order.
func (s *Schedule) aside(to Blocks, n int) Blocks {
	total := 0
	s.places = append(s.places[:0], 0)
	for i := range n {
		total += len(to.At(i))
		s.places = append(s.places, total)
	}
	s.moved = moved{to: to, from: Blocks{flat: s.mem.bytes(total), at: s.places}}
	s.result = result{order: s.order, moved: &s.moved}
	return s.moved.from
}
