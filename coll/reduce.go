package coll

import "github.com/banyan-hpc/banyan/coll/choose"

// Op folds in into acc, which are of the same length. It is associative.
type Op func(acc, in []byte)

// Fold is an operation and its properties.
type Fold struct {
	Op Op
	// Unit is the length in bytes of the elements that it folds one by one, so that parts of a buffer can
	// be folded apart from each other; 0: it needs the whole buffer.
	Unit int
	// AnyOrder: it is commutative. Else operands are folded in the order of ranks.
	AnyOrder bool
	// Swaps: two operands give the same in either order, though three may not give the same in any, as
	// with the sum of floating-point numbers. So a result can take the place of the second one.
	Swaps bool
}

// swaps reports whether two operands may be swapped.
func (f *Fold) swaps() bool { return f.Swaps || f.AnyOrder }

// streams reports whether a buffer of a length goes in segments, after a length header, by a menu that has
// any: if they can be folded apart, or it is one.
func (f *Fold) streams(m *choose.Menu, length int) bool {
	return length == headerLen || m.At(length) == choose.Pipelined && f.Unit > 0 && segment%f.Unit == 0
}

// reduce folds up a tree.
func (s *Schedule) reduce(in, out []byte, f Fold, root int) {
	root, left := s.rooted(root)
	if !left {
		return
	}
	if s.between() {
		s.reduceBetween(in, out, f, root)
		return
	}
	if s.w.Rank() != root {
		out = nil
	}
	to := s.reduceTo(in, out, f, root)
	if s.w.Rank() == root {
		s.result = result{to: out, from: to}
	}
}

// reduceTo folds up the tree with that root and returns the place of the result at the root. An
// operation that must keep the order of ranks uses a tree to rank 0 whose subtrees are neighbours,
// and rank 0 sends the result to the root: another root would change the order of operands. Out:
// memory for the result, or nil.
func (s *Schedule) reduceTo(in, out []byte, f Fold, root int) (to []byte) {
	s.fold = f.Op
	if f.AnyOrder {
		return s.climb(s.upTo(root), in, out, f)
	}
	to = s.climb(s.inOrder(), in, out, f)
	switch me := s.w.Rank(); {
	case root == 0:
	case me == root:
		s.add(stepRecv, 0, to, nil)
		s.wait()
	case me == 0:
		s.add(stepSend, root, nil, to)
		s.wait()
	}
	return to
}

// inOrder returns this rank's place in the tree whose subtrees are neighbours, with root 0.
func (s *Schedule) inOrder() *route {
	if s.free() {
		return s.upTo(0)
	}
	r := s.ownRoute()
	r.root = 0
	r.neighbours(s.w.Rank(), s.w.Size())
	return r
}

// upTo is this rank's place in the tree of a reduction with that root.
func (s *Schedule) upTo(root int) *route {
	if s.kind != Reduce || !s.free() || s.menu().First() != choose.Knomial {
		return s.o.to(root)
	}
	r := s.ownRoute()
	r.root = root
	r.knomial(s.w.Rank(), s.w.Size())
	return r
}

// ownRoute is memory for a place in a tree that is not the communicator's.
func (s *Schedule) ownRoute() *route {
	if s.place == nil {
		s.place = new(route)
	}
	return s.place
}

// toFold gives memory of a length to fold in, which is out where that may be written, and scratch memory to receive into.
func (s *Schedule) toFold(out []byte, length, room int) (to, scratch []byte) {
	if !s.staged() && len(out) == length {
		return out, s.mem.bytes(room)
	}
	both := s.mem.bytes(stride(length) + room)
	return both[:length:length], both[stride(length):]
}

// copyTo copies from to to, unless that is the same memory.
func copyTo(to, from []byte) {
	if !sameMemory(to, from) {
		copy(to, from)
	}
}

// sameMemory reports whether two buffers of one length are the same.
func sameMemory(a, b []byte) bool { return len(b) == 0 || &a[0] == &b[0] }
