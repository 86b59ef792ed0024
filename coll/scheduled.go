package coll

import "math/bits"

// What the operations are made of. Each puts its steps together; nothing is sent before Start.

// Barrier ends when all ranks have begun it.
func (s *Schedule) Barrier() {
	if s.ended {
		return
	}
	if !s.free() {
		s.roundTrip(s.way.Trees.to(0))
		return
	}
	n, me := s.w.Size(), s.w.Rank()
	for d := 1; d < n; d *= 2 {
		s.add(stepRecv, (me+n-d)%n, nil, nil)
		s.add(stepSend, (me+d)%n, nil, nil)
		s.wait()
	}
}

// Bcast copies root's buf into everybody's, as [Bcast].
func (s *Schedule) Bcast(buf []byte, root int) {
	root, left := s.delegate(root)
	if !left {
		return
	}
	to := buf
	if s.staged() && s.w.Rank() != root {
		to = s.mem.bytes(len(buf))
		s.result = result{to: buf, from: to}
	}
	s.bcast(to, root)
}

// free reports whether no tree was chosen. One of the ranks without gaps that is binomial is that of scheduled.go.
func (s *Schedule) free() bool { return s.way.Trees.free() }

// bcast goes down the tree.
func (s *Schedule) bcast(buf []byte, root int) { s.spread(s.way.Trees.to(root), buf) }

// lowest is the lowest bit of v; for the root it is beyond all ranks.
func lowest(v, n int) int {
	if v == 0 {
		return 1 << bits.Len(uint(n-1))
	}
	return v & -v
}

// Reduce folds everybody's buf into root's, as [Reduce].
func (s *Schedule) Reduce(buf []byte, f Fold, root int) {
	root, left := s.delegate(root)
	if !left {
		return
	}
	to := s.reduce(buf, f, root)
	if s.staged() && s.w.Rank() == root {
		s.result = result{to: buf, from: to}
	}
}

// Allreduce folds everybody's buf into everybody's, as [Allreduce].
func (s *Schedule) Allreduce(buf []byte, f Fold) {
	if s.ended {
		return
	}
	if s.free() {
		s.together(buf, f)
		return
	}
	to := s.reduce(buf, f, 0)
	s.bcast(to, 0)
	if s.staged() {
		s.result = result{to: buf, from: to}
	}
}

// reduce folds up the tree with that root, or in the order of ranks, and gives where the root has the result. It is ordered over a tree whose
// subtrees are neighbours, towards rank 0, which moves it on: another root would change the order of operands.
func (s *Schedule) reduce(buf []byte, f Fold, root int) (to []byte) {
	s.fold = f.Op
	if f.AnyOrder {
		return s.climb(s.way.Trees.to(root), buf, f)
	}
	to = s.climb(s.inOrder(), buf, f)
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

// inOrder is this rank's place in the tree whose subtrees are neighbours, with root 0.
func (s *Schedule) inOrder() *route {
	if s.free() {
		return s.way.Trees.to(0)
	}
	if s.place == nil {
		s.place = new(route)
	}
	s.place.neighbours(s.w.Rank(), s.w.Size())
	return s.place
}

// toFold gives what to fold buf in, and memory of the same length to receive into.
func (s *Schedule) toFold(buf []byte) (to, scratch []byte) {
	if !s.staged() {
		return buf, s.mem.bytes(len(buf))
	}
	return s.mem.two(len(buf))
}

// Gather puts everybody's mine, all of one length, into root's all, by rank. Mine may lie in all where it belongs.
func (s *Schedule) Gather(mine, all []byte, root int) {
	root, left := s.delegate(root)
	switch {
	case !left:
	case s.free():
		s.gather(mine, all, root, s.w.Rank() == root)
	default:
		s.upward(s.arranged(root), mine, all)
	}
}

// sameRoot has the operation end with an error if it is known before it begins that another rank has named another root. Precondition: the lock is held.
func (s *Schedule) sameRoot() {
	if s.w == nil || s.ended {
		return
	}
	if err := s.w.RootMismatch(s.tag); err != nil {
		s.misfit(err)
	}
}

// arranged is the tree with a root, and the order of its blocks.
func (s *Schedule) arranged(root int) *route {
	r := s.way.Trees.to(root)
	s.way.Trees.arrange(r)
	return r
}

// Allgather puts everybody's mine, all of one length, into everybody's all, as [Allgather]. What goes over a chosen tree is its second
// half: in the first blocks are to arrive by rank.
func (s *Schedule) Allgather(mine, all []byte) {
	if s.ended {
		return
	}
	s.bcast(s.gather(mine, all, 0, true), 0)
}

// gather collects towards the root: each rank has the blocks of its subtree, which are neighbours counted from the root, and
// passes them on in one message. Who wants all gets room for all of them; it gives where they come to lie.
func (s *Schedule) gather(mine, all []byte, root int, wanted bool) (blocks []byte) {
	n, block := s.w.Size(), len(mine)
	v := (s.w.Rank() - root + n) % n
	low := lowest(v, n)
	have := min(low, n-v)
	switch {
	case wanted && root == 0 && n == s.c.Size() && !s.staged():
		blocks = all
	case wanted:
		blocks = s.mem.bytes(n * block)
		s.result = result{to: all, from: blocks, blocks: block, first: root}
	case have > 1:
		blocks = s.mem.bytes(have * block)
	}
	own := mine
	if blocks != nil {
		at := 0
		if wanted {
			at = v
		}
		own = blocks[at*block : (at+have)*block]
		s.add(stepCopy, 0, own, mine)
	}
	for bit := 1; bit < low && v+bit < n; bit *= 2 {
		their := min(bit, n-v-bit)
		s.add(stepRecv, (v+bit+root)%n, own[bit*block:(bit+their)*block], nil)
	}
	s.wait()
	if v != 0 {
		s.add(stepSend, (v-low+root)%n, nil, own)
		s.wait()
	}
	return blocks
}

// Scatter gives everybody's mine, all of one length, its block of root's all, by rank. Mine may lie in all where it belongs.
func (s *Schedule) Scatter(all, mine []byte, root int) {
	root, left := s.delegate(root)
	if !left {
		return
	}
	if !s.free() {
		s.downward(s.arranged(root), all, mine)
		return
	}
	n, block := s.w.Size(), len(mine)
	v := (s.w.Rank() - root + n) % n
	low := lowest(v, n)
	have := min(low, n-v)
	blocks := mine
	switch {
	case v == 0 && root == 0 && n == s.c.Size():
		blocks = all
	case v == 0:
		blocks = s.mem.bytes(n * block)
		for i := range n {
			s.add(stepCopy, 0, blocks[i*block:][:block], all[s.w.OriginalRank((i+root)%n)*block:])
		}
	case have > 1 || s.staged():
		blocks = s.mem.bytes(have * block)
	}
	if v != 0 {
		s.add(stepRecv, (v-low+root)%n, blocks, nil)
		s.wait()
	}
	for bit := low / 2; bit > 0; bit /= 2 {
		if v+bit < n {
			their := min(bit, n-v-bit)
			s.add(stepSend, (v+bit+root)%n, nil, blocks[bit*block:(bit+their)*block])
		}
	}
	s.wait()
	s.result = result{to: mine, from: blocks[:block]}
}
