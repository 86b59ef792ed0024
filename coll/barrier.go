package coll

import (
	"cmp"

	"github.com/banyan-hpc/banyan/p2p"
)

// Barrier returns when all ranks have called it. Over a tree it gathers word of all at the root and spreads
// it from there (S2-20); left to choose it has each rank tell, in step k, the one 2^k further on.
func Barrier[M p2p.Mode](c *p2p.Comm, s Setting) error {
	w, err := everybody(c, &s, "barrier")
	switch {
	case err != nil:
	case s.Trees.free():
		done, e := flatBarrier[M](w)
		if !done {
			e = disseminate[M](w)
		}
		err = met(w, "barrier", e)
	default:
		err = met(w, "barrier", roundTrip[M](w, s.Trees.to(0)))
	}
	return s.end(err)
}

// disseminate is done in as many steps as the number of ranks has bits.
func disseminate[M p2p.Mode](w *p2p.Comm) error {
	n, me := w.Size(), w.Rank()
	for d := 1; d < n; d *= 2 {
		to, from := me+d, me-d
		if to >= n {
			to -= n
		}
		if from < 0 {
			from += n
		}
		if _, err := p2p.Exchange[M](w, nil, to, nil, from, tagBarrier); err != nil {
			return err
		}
	}
	return nil
}

// roundTrip goes up the tree and down again.
func roundTrip[M p2p.Mode](w *p2p.Comm, r *route) error {
	for i := len(r.children) - 1; i >= 0; i-- { // the smallest subtree is ready first
		if _, err := p2p.Recv[M](w, nil, r.children[i], tagBarrier); err != nil {
			return err
		}
	}
	if r.parent >= 0 {
		if _, err := p2p.Exchange[M](w, nil, r.parent, nil, r.parent, tagBarrier); err != nil {
			return err
		}
	}
	var first error
	for _, child := range r.children {
		first = cmp.Or(first, p2p.Send[M](w, nil, child, tagBarrier))
	}
	return first
}
