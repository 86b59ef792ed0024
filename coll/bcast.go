package coll

import "github.com/banyan-hpc/banyan/coll/sm"

const (
	// segment is the length of the pieces of a long message over a tree, in bytes.
	segment = 128 << 10
	// longTree is the length, in bytes, from which a message goes in segments where more than two ranks
	// would wait for the whole of it in turn.
	longTree = 4 * segment
	// ahead is how many segments are under way at a time: to all children together, or from them into
	// as many parts of a reduction's scratch memory.
	ahead = longTree / segment
)

// bcast goes down the tree.
func (s *Schedule) bcast(buf []byte, root int) {
	root, left := s.rooted(root)
	if !left {
		return
	}
	to := buf
	if s.staged() && s.w.Rank() != root {
		to = s.mem.bytes(len(buf))
		s.result = result{to: buf, from: to}
	}
	if s.between() {
		s.spread(s.hanging(root), to)
		return
	}
	if s.free() && s.alone(func(g *sm.Segment) (bool, error) { return g.Bcast(to, root) }) {
		return
	}
	if l := s.overNodes(); l != nil {
		s.bcastOverNodes(l, to, root)
		return
	}
	if s.o.readStraight() {
		s.bcastStraight(to, root)
		return
	}
	s.spread(s.o.to(root), to)
}

// bcastStraight has each rank receive from the root.
func (s *Schedule) bcastStraight(buf []byte, root int) {
	if s.w.Rank() != root {
		s.add(stepRecv, root, buf, nil)
		s.wait()
		return
	}
	for d := 1; d < s.w.Size(); d++ {
		s.add(stepSend, (root+d)%s.w.Size(), nil, buf)
	}
	s.wait()
}

// spread sends buf of the root down the tree. A length that does not fit, and a child that has failed,
// keep nothing from the other ranks, which would wait: they get what the root sent, or an empty message,
// which fits none of them.
func (s *Schedule) spread(r *route, buf []byte) {
	if s.o.segmented() {
		s.spreadLong(r, buf)
		return
	}
	kind := stepSend
	if r.parent >= 0 {
		kind = stepRelay
		s.add(stepRecv, r.parent, buf, nil)
		s.wait()
	}
	for _, child := range r.children {
		s.add(kind, child, nil, buf)
	}
	s.wait()
}

// streamed reports whether a message of a length goes in segments, after a length header, where there
// are any.
func streamed(length int) bool { return length >= longTree || length == headerLen }

// piece is the segment of buf that starts at a place.
func piece(buf []byte, at int) []byte { return buf[at:min(at+segment, len(buf))] }
