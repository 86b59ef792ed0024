package coll

import (
	"slices"

	"github.com/banyan-hpc/banyan/coll/choose"
)

// blocks are the blocks of a subtree on their way up or down a tree.
type blocks struct {
	s    *Schedule
	r    *route
	size int // of a block, in bytes
	// all has the blocks by the ranks of the communicator, at the root. If the blocks of a child's
	// subtree are contiguous there in their order of travel, they are sent and received in place; see
	// direct.
	all   []byte
	stage []byte // the blocks in the order in which they travel
}

// gather collects blocks straight or up the tree, those of a subtree in one message.
func (s *Schedule) gather(mine, all []byte, root int) {
	root, left := s.rooted(root)
	if !left {
		return
	}
	if s.between() {
		s.gatherBetween(mine, all, root)
		return
	}
	if s.goesStraight() {
		s.gatherStraight(mine, equal(all, s.c.Size()), root)
		return
	}
	b := s.blocksOn(s.o.to(root), mine, all)
	if b.r.parent >= 0 {
		s.upward(&b, mine, false)
		return
	}
	s.upward(&b, mine, !s.staged())
	s.result = result{to: all[min(s.w.OriginalRank(root)*b.size, len(all)):], from: mine}
	if b.stage == nil {
		return
	}
	s.order = s.order[:0]
	for _, rank := range b.r.order {
		s.order = append(s.order, s.w.OriginalRank(rank))
	}
	for i := range b.r.children {
		if !s.staged() && b.direct(i) != nil {
			for at := b.r.first[i]; at < b.r.last[i]; at++ {
				s.order[at] = -1
			}
		}
	}
	s.result = result{to: all, from: b.stage, order: s.order, block: b.size}
}

// goesStraight reports whether a gather or scatter goes straight between the root and each other rank.
func (s *Schedule) goesStraight() bool { return s.free() && s.menu().First() == choose.Straight }

// blocksOn are the blocks of a tree, and memory to put them together. A rank without children passes on
// its own block as it is.
func (s *Schedule) blocksOn(r *route, mine, all []byte) blocks {
	b := blocks{s: s, r: r, size: len(mine), all: all}
	s.o.arrange(b.r)
	if b.r.parent >= 0 && len(b.r.children) == 0 {
		b.stage = mine
		return b
	}
	apart := s.staged() || b.r.parent >= 0
	for i := 0; i < len(b.r.children) && !apart; i++ {
		apart = b.direct(i) == nil
	}
	if apart {
		b.stage = s.mem.bytes(len(b.r.order) * b.size)
	}
	return b
}

// place is the place of a rank's block in all.
func (b *blocks) place(rank int) []byte { return b.all[b.s.w.OriginalRank(rank)*b.size:][:b.size] }

// below is the place of the i-th child's blocks in the stage.
func (b *blocks) below(i int) []byte { return b.stage[b.r.first[i]*b.size : b.r.last[i]*b.size] }

// direct is the place of the i-th child's blocks in all if they lie there as they travel; else nil.
func (b *blocks) direct(i int) []byte {
	from, to := b.r.order[b.r.first[i]], b.r.order[b.r.last[i]-1]
	at := b.s.w.OriginalRank(from)
	if !b.r.run(i) || b.s.w.OriginalRank(to)-at != to-from {
		return nil
	}
	return b.all[at*b.size : (at+to-from+1)*b.size : len(b.all)]
}

// upward receives the blocks of the children's subtrees and sends them to the parent with its own
// block mine: all of them, or nothing if one does not fit. At the root they are in the stage then,
// or, if direct, in all.
func (s *Schedule) upward(b *blocks, mine []byte, direct bool) {
	copy(b.stage, mine)
	for i, child := range slices.Backward(b.r.children) { // the smallest subtree is ready first
		into := []byte(nil)
		if direct {
			into = b.direct(i)
		}
		if into == nil {
			into = b.below(i)
		}
		s.add(stepRecv, child, into, nil)
	}
	s.wait()
	if b.r.parent >= 0 {
		s.add(stepSend, b.r.parent, nil, b.stage)
		s.wait()
	}
}

// scatter sends each rank its block, or each child the blocks of its subtree. If a message does not fit the children get
// nothing.
func (s *Schedule) scatter(all, mine []byte, root int) {
	root, left := s.rooted(root)
	if !left {
		return
	}
	if s.between() {
		s.scatterBetween(all, mine, root)
		return
	}
	if s.goesStraight() {
		s.scatterStraight(equal(all, s.c.Size()), mine, root)
		return
	}
	b := s.blocksOn(s.o.to(root), mine, all)
	s.deal(&b, all, mine)
}

// deal sends the blocks of subtrees down a tree, and copies this rank's block to mine.
func (s *Schedule) deal(b *blocks, all, mine []byte) {
	top := b.r.parent < 0
	if s.staged() && len(b.r.children) == 0 {
		b.stage = s.mem.bytes(len(mine))
	}
	if !top {
		s.add(stepRecv, b.r.parent, b.stage, nil)
		s.wait()
	}
	for i, child := range b.r.children {
		out := []byte(nil)
		switch {
		case !top:
			out = b.below(i)
		case all != nil:
			out = b.pack(i)
		}
		s.add(stepSend, child, nil, out)
	}
	s.wait()
	switch {
	case !top:
		s.result = result{to: mine, from: b.stage[:b.size]}
	case all != nil:
		s.result = result{to: mine, from: b.place(s.w.Rank())}
	}
}

// pack gives the i-th child's blocks as they travel.
func (b *blocks) pack(i int) []byte {
	if out := b.direct(i); out != nil {
		return out
	}
	for at := b.r.first[i]; at < b.r.last[i]; at++ {
		copy(b.stage[at*b.size:], b.place(b.r.order[at]))
	}
	return b.below(i)
}
