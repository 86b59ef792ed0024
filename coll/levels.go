package coll

import (
	"math"
	"slices"

	"github.com/banyan-hpc/banyan/coll/choose"
	"github.com/banyan-hpc/banyan/coll/sm"
	"github.com/banyan-hpc/banyan/p2p"
)

// If the ranks of each of several nodes share memory, a blocking barrier, bcast, allreduce or allgather has two levels.
// The lowest rank of a node is its leader. The ranks pass their parts to their leader in memory, the leaders exchange
// messages like the ranks of a smaller communicator, and each leader passes the result to its node. A broadcast
// begins with the messages, and its root is the leader of its own node.
//
// Parts and results that are too long for the memory travel as they would without it. An allreduce then begins with
// the allreduce of a length header in two levels, by which ranks with other lengths detect the mismatch. A broadcast
// goes to the leaders in any case, which announce the messages to their nodes in memory; or it begins with a header
// too, if it travels in segments. Long blocks of an allgather go to the leaders and from there in messages, after a
// header in memory.

// levels are the two levels of a communicator, of one of its ranks.
type levels struct {
	leaders []int // by node, in the order of their lowest ranks: these
	lowest  func(node int) int
	node    []int32 // by rank: its node
	byNode  []int   // the ranks by node, beginning with this rank's
	starts  []int   // where each node begins there, and where the last ends
	members []int   // the ranks of this rank's node, in order
	inOrder bool    // the ranks of each node follow each other
	room    int     // the longest part of a member, in bytes
	segment *sm.Segment
	across  route // among leaders, by node; memory
	inside  route // among members, by place; memory
}

// levelsOf gives the levels of ranks on nodes with these numbers; nil: there are none, as no rank shares a node with another
// one, or too many do.
func levelsOf(names []int, me int) *levels {
	l := &levels{node: make([]int32, len(names)), inOrder: true}
	nodes := map[int]int32{}
	for rank, name := range names {
		at, known := nodes[name]
		if !known {
			at = int32(len(l.leaders))
			nodes[name] = at
			l.leaders = append(l.leaders, rank)
		}
		l.inOrder = l.inOrder && (!known || l.node[rank-1] == at)
		l.node[rank] = at
	}
	most, own := 0, int(l.node[me])
	for d := range l.leaders {
		l.starts = append(l.starts, len(l.byNode))
		for rank, at := range l.node {
			if int(at) == (own+d)%len(l.leaders) {
				l.byNode = append(l.byNode, rank)
			}
		}
		most = max(most, len(l.byNode)-l.starts[d])
	}
	if most < 2 || most > sm.MaxMembers {
		return nil
	}
	l.starts = append(l.starts, len(names))
	l.members = l.byNode[:l.starts[1]:l.starts[1]]
	l.room = sm.Room(max(3, most)) // less than a leader lays for its node
	l.lowest = func(node int) int { return l.leaders[node] }
	return l
}

// overNodes gives the levels over which the operation goes, and the longest length that goes over them; or nil.
func (s *Schedule) overNodes() (l *levels, most int) {
	if !s.blocks || s.ended || s.o.levels == nil {
		return nil, 0
	}
	if most = s.menu().Levels; most < 0 {
		return nil, 0
	}
	return s.o.levels, min(most, s.o.levels.longest(choices[s.kind]-1))
}

// longest is the longest length of an operation for which memory has room.
func (l *levels) longest(op choose.Op) int {
	if op == choose.Allreduce {
		return l.room
	}
	return math.MaxInt // a broadcast goes to the leaders, and the blocks of an allgather
}

// barrierOverNodes is a dissemination among the leaders.
func (s *Schedule) barrierOverNodes(l *levels) {
	if !l.segment.Leads() {
		s.add(stepBring, 0, nil, nil)
		s.add(stepTake, 0, nil, nil)
		return
	}
	s.add(stepCollect, 0, nil, nil)
	s.disseminate(int(l.node[s.w.Rank()]), len(l.leaders), l.lowest)
	s.add(stepHand, 0, nil, nil)
}

// allreduceOverNodes folds to of all ranks.
func (s *Schedule) allreduceOverNodes(l *levels, most int, to, scratch []byte, f Fold) {
	if len(to) <= most && len(to) != headerLen {
		s.result.from = s.foldOverNodes(l, to, scratch[:len(to)], stepFold)
		return
	}
	h := cubeAt(s.w.Size(), s.w.Rank(), same)
	by, unit := h.folding(s.menu(), len(to), f)
	m := s.headers()
	s.add(stepAgreed, 0, to, s.foldOverNodes(l, m[0].set(len(to), unit), m[1][:], stepSame))
	s.foldAll(h, by, to, to, scratch, f)
}

// foldOverNodes folds buffers that memory has room for, and gives the one with the result.
func (s *Schedule) foldOverNodes(l *levels, to, scratch []byte, fold stepKind) []byte {
	if !l.segment.Leads() {
		s.add(stepBring, 0, nil, to)
		s.add(stepTake, 0, to, nil)
		return to
	}
	s.add(stepCollect, int(fold), to, nil)
	h := cubeAt(len(l.leaders), int(l.node[s.w.Rank()]), l.lowest)
	to = s.recursiveDoubling(h, to, scratch, fold)
	s.add(stepHand, 0, nil, to)
	return to
}

// bcastOverNodes sends buf of the root to the leaders, over a binomial tree.
func (s *Schedule) bcastOverNodes(l *levels, most int, buf []byte, root int) {
	me, nodes, top := s.w.Rank(), len(l.leaders), int(l.node[root])
	if me != l.head(root) {
		s.add(stepTakeData, root, buf, nil)
		return
	}
	t := s.streaming()
	t.buf, t.into = buf, buf
	long := len(buf) > most || len(buf) == headerLen
	if long || me != root && len(buf) < headerLen {
		t.into = s.headers()[0][:]
	}
	r := &l.across
	r.root = top
	r.neighbours(int(l.node[me]), nodes)
	kind := stepSend
	if me != root {
		kind = stepRelay
		s.add(stepRecvFirst, l.headOf(r.parent, root), t.into, nil)
		s.wait()
	} else if long {
		s.headers()[0].set(len(buf), 0)
		t.long = true
	}
	for _, node := range r.children {
		s.add(kind, l.headOf(node, root), nil, t.into)
	}
	s.wait()
	s.add(stepHandData, root, nil, nil)
}

// headOf is the rank of a node that gets a broadcast first: the root at its own, else the leader.
func (l *levels) headOf(node, root int) int {
	if node == int(l.node[root]) {
		return root
	}
	return l.leaders[node]
}

// head is that rank of this node.
func (l *levels) head(root int) int { return l.headOf(int(l.node[l.members[0]]), root) }

// onNode runs a step in the memory of the node.
func (s *Schedule) onNode(st step) {
	g, op := s.o.levels.segment, s.kind.op()
	var err error
	switch st.kind {
	case stepBring:
		err = g.Bring(op, s.data(st.from))
	case stepCollect:
		fold := s.fold
		switch stepKind(st.peer) {
		case stepSame:
			fold = sameHeader
		case stepCopy:
			fold = nil
		}
		err = g.Collect(op, st.to, fold)
	case stepHand:
		err = g.Hand(op, st.from, !s.spoiled)
		s.ended = s.ended || s.spoiled // so has the node learned of it, and takes no more
	case stepTake:
		var part []byte
		var whole bool
		switch part, whole, err = g.Take(op, 0); {
		case err != nil:
		case !whole || len(part) != len(st.to):
			err = disagreed(len(st.to))
		default:
			copy(st.to, part)
		}
		s.ended = s.ended || s.spoiled || err != nil
	case stepHandOn:
		err = s.allgatherOn(st.from, st.to)
	case stepHandData:
		err = s.handData(int(st.peer))
	case stepTakeData:
		err = s.takeData(int(st.peer), st.to)
	}
	if err != nil {
		s.fail(err)
	}
}

// handData passes the data of a broadcast to the node, in memory or by messages.
func (s *Schedule) handData(root int) error {
	l, t, op := s.o.levels, s.stream, s.kind.op()
	if t.long {
		err := l.segment.Hand(op, t.into[:headerLen], true)
		s.spreadAgain(root, t.buf)
		return err
	}
	me, data := s.w.Rank(), t.into
	if me != root && len(data) != len(t.buf) && !s.spoiled {
		data = t.buf
		copy(data, t.into)
	}
	if !s.spoiled && len(data) <= sm.MaxLaid {
		return l.segment.Hand(op, data, true)
	}
	err := l.segment.Hand(op, nil, false)
	kind := stepRelay
	if me == root {
		kind = stepSend
	}
	_, children := l.within(me, me)
	for _, child := range children {
		s.add(kind, child, nil, data)
	}
	s.wait()
	return err
}

// takeData takes a broadcast in memory, or receives it.
func (s *Schedule) takeData(root int, buf []byte) error {
	l := s.o.levels
	head := l.head(root)
	data, whole, err := l.segment.Take(s.kind.op(), slices.Index(l.members, head))
	switch {
	case err != nil:
		return err
	case !whole:
		parent, children := l.within(s.w.Rank(), head)
		s.add(stepRecv, parent, buf, nil)
		s.wait()
		for _, child := range children {
			s.add(stepRelay, child, nil, buf)
		}
		s.wait()
	case isHeader(data, len(data)):
		s.spreadAgain(root, buf)
	case len(data) != len(buf):
		return mismatch(len(data), len(buf))
	default:
		copy(buf, data)
	}
	return nil
}

// spreadAgain continues without memory: a long message follows.
func (s *Schedule) spreadAgain(root int, buf []byte) {
	s.streaming().reset()
	s.bcastByMessages(buf, root)
}

// within is the place of a rank in the binomial tree of its node below another rank.
func (l *levels) within(me, head int) (parent int, children []int) {
	r := &l.inside
	r.root = slices.Index(l.members, head)
	r.neighbours(slices.Index(l.members, me), len(l.members))
	for i := range r.children {
		r.children[i] = l.members[r.children[i]]
	}
	if r.parent < 0 {
		return -1, r.children
	}
	return l.members[r.parent], r.children
}

// find finds out whether the ranks of each node share memory, and begins to use it.
func (s *Schedule) find() error {
	l := levelsOf(s.o.Shared.Nodes(s.w), s.w.Rank())
	if l == nil {
		return nil
	}
	search := sm.Find[p2p.Aware]
	if s.unaware {
		search = sm.Find[p2p.Unaware]
	}
	found, err := search(s.o.Shared, s.w, l.members)
	switch {
	case err != nil:
		return err
	case len(l.leaders) == 1:
		s.o.segment = found
	case found != nil:
		l.segment, s.o.levels = found, l
	}
	return nil
}
