package coll

import "github.com/banyan-hpc/banyan/p2p"

// Op folds in into acc, which are of the same length. It is associative.
type Op func(acc, in []byte)

// Fold is an operation with what may be made of it.
type Fold struct {
	Op Op
	// Unit is the length in bytes of the elements that it folds one by one, so that parts of a buffer may be folded
	// apart from each other; 0: it needs the whole.
	Unit int
	// AnyOrder: it is commutative. Else operands are folded in the order of ranks.
	AnyOrder bool
	// Swaps: two operands give the same in either order, though three may not give the same in any: as with the sum of
	// numbers with fractions. So a result can be left where the second one was.
	Swaps bool
}

// swaps reports whether two operands may be swapped.
func (f *Fold) swaps() bool { return f.Swaps || f.AnyOrder }

// Reduce folds everybody's buf and leaves the result in root's. The buffers of the others are undefined
// afterwards, or with an End as they were before. Those who are agreed to be gone contribute nothing (S0-29), and with
// a root that is one of them it does nothing.
func Reduce[M p2p.Mode](c *p2p.Comm, s Setting, buf []byte, f Fold, root int) error {
	w, root, err := begin(c, &s, "reduce", root)
	if err != nil || root == gone {
		return s.end(err)
	}
	var to []byte
	switch {
	case s.Trees.free() && !f.AnyOrder:
		to, err = ordered[M](w, &s, buf, f, root)
	default:
		to, err = reduce[M](w, &s, buf, f, root)
	}
	err = met(w, "reduce", err)
	if err = s.end(err); err == nil && w.Rank() == root {
		copy(buf, to)
	}
	return err
}

// toFold gives what to fold buf in, and memory of the same length to receive into.
func (s *Setting) toFold(buf []byte) (to, scratch []byte) {
	if s.End == nil {
		return buf, s.Memory.bytes(len(buf))
	}
	return s.Memory.two(len(buf))
}

// reduce folds over the tree with that root, where it gives the result.
func reduce[M p2p.Mode](w *p2p.Comm, s *Setting, from []byte, f Fold, root int) ([]byte, error) {
	r := s.Trees.to(root)
	if !f.AnyOrder && !s.Trees.free() {
		return collected[M](w, s, r, from, f)
	}
	to, scratch := s.toFold(from)
	err := fold[M](w, s.Trees, r, from, to, scratch, f, r.tag(kindReduce))
	return to, err
}

// collected gathers all operands at the root of a tree, whose subtrees are not neighbours, and folds them there in the
// order of ranks.
func collected[M p2p.Mode](w *p2p.Comm, s *Setting, r *route, from []byte, f Fold) ([]byte, error) {
	s.Trees.arrange(r)
	b := blocks{w: w, r: r, size: len(from), staged: true}
	b.prepare(s, from)
	if err := upward[M](&b, from, r.tag(kindReduce)); err != nil || r.parent >= 0 {
		return nil, err
	}
	acc := b.stage[r.where[0]*b.size:][:b.size]
	for _, at := range r.where[1:] {
		f.Op(acc, b.stage[at*b.size:][:b.size])
	}
	return acc, nil
}

// ordered folds towards rank 0, over the tree whose subtrees are neighbours, and moves the result to the root: folding towards
// another root would change the order of operands.
func ordered[M p2p.Mode](w *p2p.Comm, s *Setting, from []byte, f Fold, root int) ([]byte, error) {
	to, scratch := s.toFold(from)
	tag := p2p.BlockingTag(kindReduce, root)
	first := fold[M](w, s.Trees, s.Trees.to(0), from, to, scratch, f, tag)
	switch me := w.Rank(); {
	case root == 0 || fatal(first):
		return to, first
	case me == root:
		if _, err := recvAll[M](w, to, 0, tag); first == nil || fatal(err) {
			first = err
		}
	case me == 0:
		out := to
		if first != nil {
			out = nil
		}
		if err := p2p.Send[M](w, out, root, tag); first == nil || fatal(err) {
			first = err
		}
	}
	return to, first
}
