package coll

import (
	"cmp"
	"fmt"

	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/p2p"
)

// Neighbors are the ranks with which a rank exchanges blocks: it receives one from each of Sources and
// sends one to each of Dests, in the order of its buffers. A rank may be there several times. Blocks for
// p2p.ProcNull do not move.
type Neighbors struct {
	Sources, Dests []int
	// Opposite: Dests is a list of pairs, the two directions of a dimension of a grid. Block i goes to the
	// place i^1 of its receiver, also where both directions lead to the same rank (MPI 8.6).
	Opposite bool
}

// neighbors sends out(i) to each destination and receives a block of each source. Messages between two
// ranks match in order: the receives are in the order of the places, the sends in the order in which the
// receiver has their places. Ranks that are agreed to have failed are left out, like p2p.ProcNull.
func (s *Schedule) neighbors(n *Neighbors, out func(i int) []byte, to *Blocks) {
	for i, rank := range n.Sources {
		if src, here := s.neighbor(rank); here {
			s.add(stepIrecv, src, to.At(i), nil)
		}
	}
	for i := range n.Dests {
		if n.Opposite {
			i ^= 1
		}
		if dst, here := s.neighbor(n.Dests[i]); here {
			s.add(stepSend, dst, nil, out(i))
		}
	}
	s.wait()
}

// neighbor gives a rank in the communicator to send on. False: nothing is sent to it.
func (s *Schedule) neighbor(rank int) (at int, here bool) {
	if rank == p2p.ProcNull {
		return 0, false
	}
	at, here, err := s.c.CollRank(rank)
	return at, here && err == nil
}

// toNeighbors is where the blocks of neighbours come: the buffers of the caller or, if they may not be
// written yet, memory apart.
func (s *Schedule) toNeighbors(sources []int, to Blocks, apart bool) Blocks {
	if !apart && !s.staged() {
		return to
	}
	s.order = s.order[:0]
	for i, rank := range sources {
		if _, here := s.neighbor(rank); here {
			s.order = append(s.order, i)
		}
	}
	return s.aside(to, len(sources))
}

// neighborAllgather sends the same to all destinations.
func (s *Schedule) neighborAllgather(n *Neighbors, mine []byte, to Blocks) {
	same := equal(mine, 1)
	to = s.toNeighbors(n.Sources, to, same.overlap(1, &to, len(n.Sources)))
	s.neighbors(n, func(int) []byte { return mine }, &to)
}

// neighborAlltoall sends each destination its block.
func (s *Schedule) neighborAlltoall(n *Neighbors, from, to Blocks) {
	to = s.toNeighbors(n.Sources, to, from.overlap(len(n.Dests), &to, len(n.Sources)))
	s.neighbors(n, from.At, &to)
}

// wrongNeighbors gives the error of wrong arguments of an operation among neighbours of n ranks. Without
// ranks that exist the operation has no messages.
func (a *Args) wrongNeighbors(k Kind, n int) error {
	if err := a.Neighbors.wrong(n); err != nil {
		a.Neighbors = Neighbors{}
		return err
	}
	in, out, unit := len(a.Neighbors.Sources), len(a.Neighbors.Dests), max(1, a.Unit)
	switch k {
	case NeighborAllgatherv:
		return forEach(&a.To, in)
	case NeighborAlltoallv:
		return cmp.Or(forEach(&a.From, out), forEach(&a.To, in))
	case NeighborAlltoall:
		if err := cmp.Or(divides(len(a.In), out, unit), divides(len(a.Out), in, unit)); err != nil {
			return err
		}
		if in > 0 && out > 0 && len(a.In)/out != len(a.Out)/in {
			return fmt.Errorf("%w: blocks of %d bytes to send and of %d to receive: give blocks of one length",
				ft.ErrArgument, len(a.In)/out, len(a.Out)/in)
		}
		return nil
	}
	if out > 0 && in > 0 && len(a.Out) != in*len(a.In) {
		return fmt.Errorf("%w: blocks of %d bytes from %d neighbours do not fit %d bytes", ft.ErrArgument, len(a.In),
			in, len(a.Out))
	}
	return divides(len(a.Out), in, unit)
}

// divides gives an error unless a length is that of n blocks of whole elements.
func divides(length, n, unit int) error {
	if n == 0 && length == 0 || n > 0 && length%(n*unit) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %d bytes are no blocks of one length for %d neighbours", ft.ErrArgument, length, n)
}

// wrong gives an error unless these are ranks of n, or p2p.ProcNull.
func (n *Neighbors) wrong(size int) error {
	if n.Opposite && (len(n.Dests)%2 != 0 || len(n.Sources) != len(n.Dests)) {
		return fmt.Errorf("%w: %d sources and %d destinations are no pairs of directions", ft.ErrArgument,
			len(n.Sources), len(n.Dests))
	}
	for _, ranks := range [...][]int{n.Sources, n.Dests} {
		for _, rank := range ranks {
			if rank != p2p.ProcNull && uint(rank) >= uint(size) {
				return fmt.Errorf("%w: neighbour %d, want 0 … %d", ft.ErrArgument, rank, size-1)
			}
		}
	}
	return nil
}
