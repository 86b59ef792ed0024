package coll

import (
	"fmt"

	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/p2p"
)

// In the operations of this file a rank has a message for each other one, and no rank passes on those of
// others: so there is no tree, whatever was chosen. All receives are posted before the first send, the
// sends begin with the next rank, so that not all ranks send to the same one at once, and one wait ends all
// of them. Each message has the length that its receiver expects, or the receiver has ft.ErrArgument.

// Args are the arguments of such an operation.
type Args struct {
	In, Out []byte // in one piece
	// From and To are by rank of the communicator.
	From, To Blocks
}

// Do runs an operation of a kind.
func (o *Comm) Do(c *p2p.Comm, call Call, k Kind, a Args) error {
	call.Wrong = a.check(k, c.Size())
	call = o.compared(c, call)
	s := o.blocking(c, k, call)
	s.plan(&a)
	return s.run()
}

// Start is Do of an operation that does not block.
func (o *Comm) Start(c *p2p.Comm, call Call, k Kind, a Args) p2p.Handle {
	call.Wrong = a.check(k, c.Size())
	call = o.comparing(c, call)
	s := o.nonblocking(c, k, call)
	s.plan(&a)
	return s.start()
}

// check gives the error of wrong arguments of a rank, which takes part with no data then.
func (a *Args) check(k Kind, n int) error {
	if n == 0 { // no communicator
		return nil
	}
	wrong := a.wrong(k, n)
	if wrong != nil {
		*a = Args{}
	}
	return wrong
}

func (a *Args) wrong(k Kind, n int) error {
	if k == Alltoall {
		switch {
		case len(a.In) != len(a.Out):
			return fmt.Errorf("%w: %d bytes to send and %d to receive: give slices of one length",
				ft.ErrArgument, len(a.In), len(a.Out))
		case len(a.In)%n != 0:
			return fmt.Errorf("%w: %d bytes are no blocks of one length for %d ranks", ft.ErrArgument, len(a.In), n)
		}
	}
	return nil
}

// plan adds the steps of the operation.
func (s *Schedule) plan(a *Args) {
	if s.ended {
		return
	}
	n := s.c.Size()
	if s.kind == Alltoall {
		s.alltoall(equal(a.In, n), equal(a.Out, n))
	}
}

// alltoall sends each rank its block and receives one from each.
func (s *Schedule) alltoall(from, to Blocks) {
	if s.staged() || from.overlap(&to, s.c.Size()) {
		to = s.apart(to)
	}
	s.pairwise(from.At, &to)
}

// pairwise sends out(rank) to each rank and receives its block in place of it.
func (s *Schedule) pairwise(out func(rank int) []byte, to *Blocks) {
	w := s.w
	n, me := w.Size(), w.Rank()
	mine := w.OriginalRank(me)
	copy(to.At(mine), out(mine))
	for d := 1; d < n; d++ {
		src := (me + n - d) % n
		s.add(stepIrecv, src, to.At(w.OriginalRank(src)), nil)
	}
	for d := 1; d < n; d++ {
		dst := (me + d) % n
		s.add(stepIsend, dst, nil, out(w.OriginalRank(dst)))
	}
	s.wait()
}

// apart is memory for blocks that the caller gets when the operation has succeeded.
func (s *Schedule) apart(to Blocks) Blocks {
	total := 0
	s.places = append(s.places[:0], 0)
	for rank := range s.c.Size() {
		total += len(to.At(rank))
		s.places = append(s.places, total)
	}
	s.order = s.order[:0]
	for rank := range s.w.Size() {
		s.order = append(s.order, s.w.OriginalRank(rank))
	}
	in := Blocks{flat: s.mem.bytes(total), at: s.places}
	s.result = result{order: s.order, blocks: to, apart: in}
	return in
}
