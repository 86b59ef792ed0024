package coll

import (
	"cmp"

	"github.com/banyan-hpc/banyan/p2p"
)

// Allgather puts everybody's mine, all of one length, into everybody's all, by
// rank. Mine may lie in all where it belongs. The places of those who are agreed to be gone
// stay as they are (S0-30).
func Allgather[M p2p.Mode](c *p2p.Comm, s Setting, mine, all []byte) error {
	w, err := everybody(c, &s, "allgather")
	if err != nil {
		return s.end(err)
	}
	n, size := w.Size(), len(mine)
	var dense []byte
	if s.Trees.free() {
		if dense = all[:min(len(all), n*size)]; s.End != nil || n < c.Size() {
			dense = s.Memory.bytes(n * size)
		}
		dense, err = amongAll[M](w, &s, mine, dense)
	} else {
		dense, err = overTree[M](w, &s, mine)
	}
	err = met(w, "allgather", err)
	if err = s.end(err); err != nil {
		return err
	}
	if n == c.Size() {
		copy(all, dense)
		return nil
	}
	for rank := range n {
		copy(all[w.OriginalRank(rank)*size:][:size], dense[rank*size:])
	}
	return nil
}

// amongAll has all give each other their blocks without a root, in shared memory where all can and it is little. Dense is where they
// may be put together, and may be all's.
func amongAll[M p2p.Mode](w *p2p.Comm, s *Setting, mine, dense []byte) ([]byte, error) {
	done, err := flatAllgather[M](w, mine, dense)
	switch n := w.Size(); {
	case done:
		return dense, err
	case n&(n-1) == 0:
		return dense, doubled[M](w, mine, dense)
	}
	return turned[M](w, s, mine)
}

// doubled has neighbours, then pairs, then fours give each other what they have. The number of ranks is a power of two.
func doubled[M p2p.Mode](w *p2p.Comm, mine, dense []byte) (first error) {
	me, size := w.Rank(), len(mine)
	copy(dense[me*size:], mine)
	for d := 1; d < w.Size(); d *= 2 {
		have, with := me&^(d-1), me^d
		out, in := dense[have*size:(have+d)*size], dense[(have^d)*size:((have^d)+d)*size]
		if first != nil {
			out = nil
		}
		err := swap[M](w, out, with, in, with, tagAllgather)
		if fatal(err) {
			return err
		}
		first = cmp.Or(first, err)
	}
	return first
}

// turned has each rank, in step k, give what it has to the one 2^k below: a rank has its own block first, then those of the
// ranks above, and at the end puts them in order (Bruck et al.).
func turned[M p2p.Mode](w *p2p.Comm, s *Setting, mine []byte) (dense []byte, first error) {
	n, me, size := w.Size(), w.Rank(), len(mine)
	dense, have := s.Memory.two(n * size)
	copy(have, mine)
	for d := 1; d < n; d *= 2 {
		many := min(d, n-d)
		out, in := have[:many*size], have[d*size:(d+many)*size]
		if first != nil {
			out = nil
		}
		err := swap[M](w, out, (me+n-d)%n, in, (me+d)%n, tagAllgather)
		if fatal(err) {
			return nil, err
		}
		first = cmp.Or(first, err)
	}
	copy(dense[me*size:], have[:(n-me)*size])
	copy(dense, have[(n-me)*size:])
	return dense, first
}

// overTree gathers at rank 0 and spreads it from there.
func overTree[M p2p.Mode](w *p2p.Comm, s *Setting, mine []byte) ([]byte, error) {
	r := s.Trees.to(0)
	s.Trees.arrange(r)
	dense, stage := s.Memory.two(w.Size() * len(mine))
	b := blocks{w: w, r: r, size: len(mine), all: dense, dense: true, staged: true, stage: stage[:len(r.order)*len(mine)]}
	err := upward[M](&b, mine, tagAllgather)
	if err == nil && r.parent < 0 {
		b.unpack(mine)
	}
	return dense, thenBcast[M](w, s.Trees, dense, err)
}
