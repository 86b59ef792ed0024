package coll

import (
	"github.com/banyan-hpc/banyan/coll/choose"
	"github.com/banyan-hpc/banyan/coll/sm"
)

const (
	// segment is the length of the pieces of a long message over a tree, in bytes.
	segment = 128 << 10
	// longTree is the length, in bytes, from which a message goes in segments over a tree that was chosen.
	longTree = 4 * segment
	// underway is how many segments are under way at a time: to all children together, or from them into
	// as many parts of a reduction's scratch memory.
	underway = 4
)

// bcast goes down a tree, or another way.
func (s *Schedule) bcast(buf []byte, root int) {
	over := s.ended
	root, left := s.rooted(root)
	if !left {
		if !over && s.ended {
			s.skip()
		}
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
	switch {
	case !s.free():
		s.spread(s.o.to(root), to)
	case s.alone(func(g *sm.Segment, most int) (bool, error) { return g.Bcast(Bcast.op(), to, root, most) }):
	default:
		if l, most := s.overNodes(); l != nil {
			s.bcastOverNodes(l, most, to, root)
		} else {
			s.bcastByMessages(to, root)
		}
	}
}

// skip has a rank that named a root that cannot be take the step of the others in shared memory, if they take one there.
func (s *Schedule) skip() {
	if !s.blocks || s.between() || !s.free() {
		return
	}
	g, m := s.o.segment, s.menu()
	if l := s.o.levels; l != nil && m.Levels >= 0 {
		g = l.segment
	} else if m.Memory < 0 {
		g = nil
	}
	if g == nil {
		return
	}
	if err := g.Skip(s.kind.op()); err != nil {
		s.fail(err)
	}
}

// bcastByMessages takes the algorithm from the table.
func (s *Schedule) bcastByMessages(buf []byte, root int) {
	m, r := s.menu(), s.o.to(root)
	switch {
	case !m.One():
		s.spreadLong(r, buf, m)
	case m.First() == choose.Straight:
		flat := s.ownRoute()
		flat.straight(s.w.Rank(), s.w.Size(), root)
		s.spreadWhole(flat, buf)
	default:
		s.spreadWhole(r, buf)
	}
}

// straight takes the tree in which the root has all others for children, from the next one on.
func (r *route) straight(me, n, root int) {
	r.parent, r.children = root, r.children[:0]
	if me != root {
		return
	}
	r.parent = -1
	for d := 1; d < n; d++ {
		r.children = append(r.children, (root+d)%n)
	}
}

// spread sends buf of the root down a tree.
func (s *Schedule) spread(r *route, buf []byte) {
	if s.o.segmented() {
		s.spreadLong(r, buf, segmentedTrees)
	} else {
		s.spreadWhole(r, buf)
	}
}

// spreadWhole sends buf of the root down a tree. After a length that does not fit, or the failure of a
// child, this rank still serves the other ranks, which would wait otherwise: they get the root's message,
// or an empty message, which fits none of them.
func (s *Schedule) spreadWhole(r *route, buf []byte) {
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

// piece is the segment of buf that starts at a place.
func piece(buf []byte, at int) []byte { return buf[at:min(at+segment, len(buf))] }
