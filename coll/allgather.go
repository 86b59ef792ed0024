package coll

import (
	"github.com/banyan-hpc/banyan/coll/choose"
	"github.com/banyan-hpc/banyan/coll/sm"
)

// allgather gathers at the lowest rank over a chosen tree and broadcasts from there. Else it needs no
// root: it goes straight from each rank to each, or by recursive doubling, or by Bruck's algorithm where the number
// of ranks is no power of two, or around a ring.
func (s *Schedule) allgather(mine, all []byte) {
	if s.ended {
		return
	}
	if s.between() {
		s.allgatherBetween(mine, all)
		return
	}
	n, size := s.w.Size(), len(mine)
	var dense []byte // the blocks by the ranks of w
	if !s.free() {
		dense = s.overTree(mine)
	} else {
		if dense = all[:min(len(all), n*size)]; s.staged() || n < s.c.Size() {
			dense = s.mem.bytes(n * size)
		}
		if !s.alone(func(g *sm.Segment, most int) (bool, error) { return g.Allgather(s.kind.op(), mine, dense, most) }) {
			l, most := s.overNodes()
			if l != nil && s.allgatherOverNodes(l, most, mine, all) {
				return
			}
			dense = s.allgatherByMessages(mine, dense, l != nil)
		}
	}
	s.result = result{to: all, from: dense}
	if n < s.c.Size() {
		s.order = s.order[:0]
		for rank := range n {
			s.order = append(s.order, s.w.OriginalRank(rank))
		}
		s.result.order, s.result.block = s.order, size
	}
}

// allgatherByMessages takes the algorithm from the table, and gives the place of all blocks: dense, or other memory.
// Agreed: all ranks have the same length.
func (s *Schedule) allgatherByMessages(mine, dense []byte, agreed bool) []byte {
	m, n, size := s.menu(), s.w.Size(), len(mine)
	if !agreed && ahead(m, size) {
		s.agreeOnLength(m.First(), mine)
	}
	switch by := m.At(size); {
	case by == choose.Straight:
		copy(dense[s.w.Rank()*size:], mine)
		s.toAll(func(src int) []byte { return dense[src*size:][:size] }, func(int) []byte { return mine })
	case by == choose.Ring:
		s.ringAllgather(mine, dense)
	case n&(n-1) == 0:
		s.recursiveDoublingAllgather(mine, dense)
	default:
		dense = s.bruck(mine)
	}
	return dense
}

// agreeOnLength has all ranks send a length header in place of a block, as an algorithm sends blocks, and ends the
// operation at all ranks unless all are the same.
func (s *Schedule) agreeOnLength(by choose.Algorithm, block []byte) {
	h, n, me := s.headers(), s.w.Size(), s.w.Rank()
	mine := h[0].set(len(block), 0)
	if by == choose.Straight {
		if len(s.heads) < n*headerLen {
			s.heads = make([]byte, n*headerLen)
		}
		at := func(rank int) []byte { return s.heads[rank*headerLen:][:headerLen] }
		s.toAll(at, func(int) []byte { return mine })
		for rank := range n {
			if rank != me {
				s.add(stepSame, 0, mine, at(rank))
			}
		}
	} else {
		for d := 1; d < n; d *= 2 {
			dst, src := (me+n-d)%n, (me+d)%n
			if n&(n-1) == 0 {
				dst, src = me^d, me^d
			}
			s.exchange(dst, mine, src, h[1][:])
			s.add(stepSame, 0, mine, h[1][:])
		}
	}
	s.add(stepAgreed, 0, block, mine)
}

// ringAllgather has each rank, in each step, send the block that came last to the rank above.
func (s *Schedule) ringAllgather(mine, dense []byte) {
	n, me, size := s.w.Size(), s.w.Rank(), len(mine)
	copy(dense[me*size:], mine)
	block := func(back int) []byte { return dense[(me+n-back)%n*size:][:size] }
	for d := 1; d < n; d++ {
		s.exchange((me+1)%n, block(d-1), (me+n-1)%n, block(d))
	}
}

// recursiveDoublingAllgather has neighbours, then pairs, then fours exchange their blocks. The number
// of ranks is a power of two.
func (s *Schedule) recursiveDoublingAllgather(mine, dense []byte) {
	me, size := s.w.Rank(), len(mine)
	copy(dense[me*size:], mine)
	for d := 1; d < s.w.Size(); d *= 2 {
		have, with := me&^(d-1), me^d
		s.exchange(with, dense[have*size:(have+d)*size], with, dense[(have^d)*size:((have^d)+d)*size])
	}
}

// bruck is Bruck's algorithm: in step k each rank sends its blocks to the rank 2^k below. A rank
// stores its own block first, then those of the ranks above, and sorts them at the end (Bruck et
// al.).
func (s *Schedule) bruck(mine []byte) (dense []byte) {
	n, me, size := s.w.Size(), s.w.Rank(), len(mine)
	dense, have := s.mem.two(n * size)
	copy(have, mine)
	for d := 1; d < n; d *= 2 {
		many := min(d, n-d)
		s.exchange((me+n-d)%n, have[:many*size], (me+d)%n, have[d*size:(d+many)*size])
	}
	s.add(stepCopy, 0, dense[me*size:], have[:(n-me)*size])
	s.add(stepCopy, 0, dense, have[(n-me)*size:])
	return dense
}

// overTree gathers at rank 0 and broadcasts from there.
func (s *Schedule) overTree(mine []byte) []byte {
	r := s.o.to(0)
	s.o.arrange(r)
	dense, stage := s.mem.two(s.w.Size() * len(mine))
	b := blocks{s: s, r: r, size: len(mine), stage: stage[:len(r.order)*len(mine)]}
	s.upward(&b, mine, false)
	if r.parent < 0 {
		s.sorted = append(s.sorted[:0], r.order...)
		s.add(stepSort, 0, dense, stage)
	}
	s.spread(r, dense)
	return dense
}

// mostPieces is the largest number of payloads in which a leader lays the result of an allgather for its node.
const mostPieces = 9

// allgatherOverNodes has the leaders exchange the blocks of their nodes. Few bytes go through the memory of a node. For
// longer ones its ranks bring a length header there, and exchange messages with the leader. False: by the table other
// algorithms take them, and the leaders exchange headers.
func (s *Schedule) allgatherOverNodes(l *levels, most int, mine, all []byte) bool {
	size, n, head := len(mine), s.w.Size(), s.headers()
	head[0].set(size, 0)
	if size > most {
		s.gatherInMemory(l, head[0][:], head[0][:], stepSame, func(d, _ int) []byte { return head[min(d, 1)][:] })
		s.add(stepAgreed, 0, mine, head[0][:])
		return false
	}
	have := s.mem.bytes(n * size) // the blocks by node, beginning with the own one
	s.order = s.order[:0]
	for _, rank := range l.byNode {
		s.order = append(s.order, s.w.OriginalRank(rank))
	}
	s.result = result{to: all, from: have, order: s.order, block: size}
	switch {
	case size <= min(l.room, mostPieces*sm.MaxLaid/n) && size != headerLen:
		s.gatherInMemory(l, mine, have, stepCopy, l.blocks(have))
	case l.segment.Leads():
		copy(have, mine)
		s.add(stepCollect, int(stepSame), head[0][:], nil)
		s.add(stepHandOn, 0, have, head[0][:])
	default:
		s.add(stepBring, 0, nil, head[0][:])
		s.add(stepTake, 0, head[1][:], nil)
		s.add(stepSend, l.members[0], nil, mine)
		s.wait()
		parent, children := l.within(s.w.Rank(), l.members[0])
		s.add(stepRecv, parent, have, nil)
		s.wait()
		for _, child := range children {
			s.add(stepRelay, child, nil, have)
		}
		s.wait()
	}
	return true
}

// gatherInMemory gathers what the ranks of a node bring, has the leaders exchange it, and lays all of it for the node.
func (s *Schedule) gatherInMemory(l *levels, mine, have []byte, by stepKind, of func(d, many int) []byte) {
	kind := stepTake
	if l.segment.Leads() {
		kind = stepHand
		copy(have, mine)
		s.add(stepCollect, int(by), of(0, 1), nil)
		s.bruckOfLeaders(l, by, of)
	} else {
		s.add(stepBring, 0, nil, mine)
	}
	for more := true; more; more = len(have) > 0 {
		part := have[:min(len(have), sm.MaxLaid)]
		have = have[len(part):]
		s.add(kind, 0, part, part)
	}
}

// bruckOfLeaders is Bruck's algorithm among the leaders. Of are the blocks of so many nodes, d above this one. With
// stepSame they are folded. After lengths that do not fit leaders go on with empty messages, so that all learn of it.
func (s *Schedule) bruckOfLeaders(l *levels, by stepKind, of func(d, many int) []byte) {
	own, nodes := int(l.node[s.w.Rank()]), len(l.leaders)
	for d := 1; d < nodes; d *= 2 {
		many := min(d, nodes-d)
		s.exchange(l.leaders[(own+nodes-d)%nodes], of(0, many), l.leaders[(own+d)%nodes], of(d, many))
		if by == stepSame {
			s.add(stepSame, 0, of(0, many), of(d, many))
		}
	}
}

// blocks are those of nodes in have.
func (l *levels) blocks(have []byte) func(d, many int) []byte {
	size := len(have) / len(l.node)
	return func(d, many int) []byte { return have[l.starts[d]*size : l.starts[d+many]*size] }
}

// allgatherOn continues at a leader whose node has agreed on the length of blocks, or knows that it has not.
func (s *Schedule) allgatherOn(head, have []byte) error {
	l, agreed := s.o.levels, !s.spoiled
	err := l.segment.Hand(s.kind.op(), head, agreed)
	if agreed {
		at := l.blocks(have)(0, 1)
		size := len(at) / len(l.members)
		for i, member := range l.members[1:] {
			s.add(stepIrecv, member, at[(i+1)*size:][:size], nil)
		}
		s.wait()
	}
	s.bruckOfLeaders(l, stepCopy, l.blocks(have))
	if _, children := l.within(s.w.Rank(), s.w.Rank()); agreed {
		for _, child := range children {
			s.add(stepSend, child, nil, have)
		}
		s.wait()
	}
	return err
}
