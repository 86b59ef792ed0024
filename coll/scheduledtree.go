package coll

import "slices"

// What the operations are made of where a tree has been chosen, or the gone keep their places in it. The rest, in
// scheduled.go, goes by itself: by dissemination, and over the binomial tree whose subtrees are neighbours.

// roundTrip goes up the tree and down again.
func (s *Schedule) roundTrip(r *route) {
	for _, child := range r.children {
		s.add(stepRecv, child, nil, nil)
	}
	s.wait()
	if r.parent >= 0 {
		s.add(stepSend, r.parent, nil, nil)
		s.add(stepRecv, r.parent, nil, nil)
		s.wait()
	}
	for _, child := range r.children {
		s.add(stepSend, child, nil, nil)
	}
	s.wait()
}

// climb folds up the tree, in the order in which subtrees are ready: the smallest first.
func (s *Schedule) climb(r *route, buf []byte, f Fold) (to []byte) {
	to, scratch := s.toFold(buf)
	if s.way.Trees.segmented() {
		s.climbMarked(r, buf, to, scratch, f.streams(len(buf)))
		return to
	}
	acc := buf
	if s.staged() && (len(r.children) > 0 || r.parent < 0) {
		s.add(stepCopy, 0, to, buf)
		acc = to
	}
	for _, child := range slices.Backward(r.children) {
		s.add(stepRecv, child, scratch, nil)
		s.wait()
		s.add(stepFold, 0, acc, scratch)
	}
	if r.parent >= 0 {
		s.add(stepSend, r.parent, nil, acc)
		s.wait()
	}
	return to
}

// upward collects the blocks of each subtree in the order in which the tree has them, and gives where the root has all.
func (s *Schedule) upward(r *route, mine, all []byte) {
	blocks, block := mine, len(mine)
	if len(r.children) > 0 || r.parent < 0 {
		blocks = s.mem.bytes(len(r.order) * block)
		s.add(stepCopy, 0, blocks[:block], mine)
	}
	for i, child := range r.children {
		s.add(stepRecv, child, blocks[r.first[i]*block:r.last[i]*block], nil)
	}
	s.wait()
	if r.parent >= 0 {
		s.add(stepSend, r.parent, nil, blocks)
		s.wait()
		return
	}
	s.result = result{to: all, from: blocks, blocks: block, order: s.take(r.order)}
}

// downward gives each subtree the blocks that upward would collect there.
func (s *Schedule) downward(r *route, all, mine []byte) {
	blocks, block := mine, len(mine)
	if len(r.children) > 0 || r.parent < 0 || s.staged() {
		blocks = s.mem.bytes(len(r.order) * block)
	}
	if r.parent >= 0 {
		s.add(stepRecv, r.parent, blocks, nil)
		s.wait()
	} else if len(all) > 0 {
		for i, rank := range r.order {
			s.add(stepCopy, 0, blocks[i*block:][:block], all[s.w.OriginalRank(rank)*block:])
		}
	}
	for i, child := range r.children {
		s.add(stepSend, child, nil, blocks[r.first[i]*block:r.last[i]*block])
	}
	s.wait()
	s.result = result{to: mine, from: blocks[:block]}
}

// take keeps an order of blocks, since the tree may be another one when they are there.
func (s *Schedule) take(order []int) []int {
	s.order = append(s.order[:0], order...)
	return s.order
}
