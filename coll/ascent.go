package coll

import (
	"math/bits"
	"slices"

	"github.com/banyan-hpc/banyan/p2p"
)

// ascent is a reduction up a tree in which length headers may arrive. A long buffer travels in segments:
// each is passed on as soon as it has come from all children, while the next ones are under way. In each
// round a message arrives from every child whose header announced that many, and one goes to the parent
// if this rank's header announced it. If lengths do not fit, the announced messages are sent
// nevertheless, and dropped.
type ascent struct {
	parent            int   // -1 at the root
	children          []int // the smallest subtree first
	from, to, scratch []byte
	into              []byte // for the first message of a child
	stride            int    // from one part of scratch to the next; segments take them in turn
	spare             []byte // memory for scratch of buffers that are shorter than all its parts
	own               int    // how many messages follow this rank's header
	promised          []int  // by child, how many follow its header
	rounds            int    // the most of these
	at                int    // the number of the last message, counted by rounds and children; -1: none
	again             int    // the step that waits for the next one
	asked             int    // for how many messages there is, or was, a receive
	// coming and up are the messages under way from the children and to the parent that no step waits for
	// yet.
	coming [underway]p2p.Handle
	up     p2p.Handle
}

// reset makes it ready for the next operation.
func (a *ascent) reset() {
	*a = ascent{children: a.children[:0], promised: a.promised[:0], spare: a.spare}
}

// segments is how many messages follow the header of a message of a length.
func segments(length int) int { return (length + segment - 1) / segment }

// climb folds up the tree, in the order in which subtrees are ready: the smallest first. It gives the
// place of the result at the root.
func (s *Schedule) climb(r *route, in, out []byte, f Fold) (to []byte) {
	places := bits.Len(uint(r.group()))
	to, scratch := s.toFold(out, len(in), (places-1)*stride(len(in))+len(in))
	s.climbIn(r, in, to, scratch, f)
	return to
}

// climbIn is climb in buffers as long as in; to is the place of the result, and may be in. Children of a group are
// folded as they are in a binomial tree, where the first one is a parent of the second and so on: so all trees whose
// subtrees are runs of ranks give the same bytes. Scratch has a place for each child on such a path.
func (s *Schedule) climbIn(r *route, in, to, scratch []byte, f Fold) {
	if m := s.climbing(); m != nil {
		s.climbLong(r, in, to, scratch[:len(in)], f.streams(m, len(in)))
		return
	}
	place := func(child int) []byte { // within its group, from 1 on; 0: this rank
		if child == 0 {
			return to
		}
		return scratch[(bits.OnesCount(uint(child))-1)*stride(len(in)):][:len(in)]
	}
	acc, got, with := in, place(1), place(1)
	switch {
	case len(r.children) > 0 && f.swaps() && !sameMemory(to, in):
		got, with = to, in // the first child's part comes to where it stays, and nothing is copied
		acc = to
	case len(r.children) > 0 || r.parent < 0:
		copyTo(to, in)
		acc = to
	}
	for left := len(r.children); left > 0; left -= r.group() { // the smallest subtree is the last
		group := min(r.group(), left)
		for child := 1; child <= group; child++ {
			if child > 1 || left < len(r.children) {
				got, with = place(child), place(child)
			}
			s.add(stepRecv, r.children[left-child], got, nil)
			s.wait()
			for at, bit := child, 1; at > 0 && (at&bit != 0 || child == group); bit *= 2 {
				if at&bit != 0 {
					s.add(stepFold, 0, place(at&^bit), with)
					at &^= bit
					with = place(at)
				}
			}
		}
	}
	if r.parent >= 0 {
		s.add(stepSend, r.parent, nil, acc)
		s.wait()
	}
}

// climbLong is climb where length headers may come. Long: this rank sends one, and its buffer in
// segments.
func (s *Schedule) climbLong(r *route, from, to, scratch []byte, long bool) {
	if s.ascent == nil {
		s.ascent = new(ascent)
	}
	a := s.ascent
	a.parent, a.at = r.parent, -1
	for _, child := range slices.Backward(r.children) {
		a.children = append(a.children, child)
	}
	a.from, a.to, a.scratch, a.into, a.stride = from, to, scratch, scratch, segment
	if long || len(scratch) < headerLen {
		a.into = s.headers()[1][:]
	}
	if long {
		a.own = segments(len(from))
		if len(from) < underway*segment {
			if a.stride = min(segment, len(from)); len(a.spare) < underway*a.stride {
				a.spare = make([]byte, underway*a.stride)
			}
			a.scratch = a.spare
		}
		if a.parent >= 0 {
			s.add(stepSend, a.parent, nil, s.headers()[0].set(len(from), 0))
		}
	} else if len(a.children) > 0 {
		copyTo(to, from)
	}
	if len(a.children) == 0 && a.parent < 0 {
		copyTo(to, from)
	}
	a.rounds = a.own
	for _, child := range a.children {
		s.add(stepRecvChild, child, a.into, nil)
		s.wait()
		if !long {
			s.add(stepCopy, 0, scratch, a.into)
			s.add(stepFold, 0, to, scratch)
		}
	}
	if !long && a.parent >= 0 {
		s.add(stepSend, a.parent, nil, a.out())
	}
	a.again = len(s.steps)
	s.wait()
	s.add(stepTakeIn, 0, nil, nil)
	s.wait()
	s.add(stepClimbOn, 0, nil, nil)
	s.wait()
}

// out is the buffer for the parent.
func (a *ascent) out() []byte {
	if len(a.children) > 0 {
		return a.to
	}
	return a.from
}

// offered looks at the first message of a child.
func (a *ascent) offered(w *p2p.Comm, st p2p.Status, err error) (got int, _ error) {
	if err != nil || !isHeader(a.into, st.Count) {
		a.promised = append(a.promised, 0)
		return fit(w, st, err, len(a.from))
	}
	total := lengthIn(a.into)
	a.promised = append(a.promised, segments(total))
	a.rounds = max(a.rounds, segments(total))
	switch {
	case total != len(a.from):
		err = mismatch(total, len(a.from))
	case a.own == 0: // its elements cannot be folded in parts here
		err = disagreed(total)
	}
	return st.Count, err
}

// takeIn folds the message that has come. After the last one of a round, which goes to the parent, it
// has the next stepWait wait for the message to the parent of the round before.
func (s *Schedule) takeIn() {
	a := s.ascent
	if child, in := a.incoming(a.at); child >= 0 && !s.spoiled {
		round, turn := a.position(a.at)
		out := piece(a.to, round*segment)
		if turn == 0 {
			copyTo(out, piece(a.from, round*segment))
		}
		s.fold(out, in)
	}
	if a.goesUp(a.at) {
		s.now(&a.up, sent)
	}
}

// climbOn sends the result of a round, and goes back to the wait for the next message until there is
// none.
func (s *Schedule) climbOn() {
	a := s.ascent
	if a.goesUp(a.at) {
		round, _ := a.position(a.at)
		a.up = s.isend(s.data(piece(a.out(), round*segment)), a.parent)
	}
	a.at++
	for ; a.asked < min(a.at+underway, a.rounds*a.width()); a.asked++ {
		if child, in := a.incoming(a.asked); child >= 0 {
			a.coming[a.asked%underway] = s.irecv(in, child)
		}
	}
	if a.at == a.rounds*a.width() {
		return
	}
	_, in := a.incoming(a.at)
	s.now(&a.coming[a.at%underway], len(in))
	s.at = a.again
}

// position gives the round and the child of the message with a number; -1, 0: none.
func (a *ascent) position(at int) (round, turn int) {
	if at < 0 {
		return -1, 0
	}
	return at / a.width(), at % a.width()
}

// goesUp reports whether the parent is sent a message after this one.
func (a *ascent) goesUp(at int) bool {
	round, turn := a.position(at)
	return a.parent >= 0 && round >= 0 && round < a.own && turn == a.width()-1
}

// width is how many messages a round has room for. A rank without children sends in rounds, too.
func (a *ascent) width() int { return max(1, len(a.children)) }

// incoming gives the child of a message and its place in memory, which is empty if this rank does not
// expect one of its length; -1: there is no such message.
func (a *ascent) incoming(at int) (child int, in []byte) {
	round, turn := a.position(at)
	if round < 0 || turn >= len(a.promised) || a.promised[turn] <= round {
		return -1, nil
	}
	if round < a.own {
		in = a.scratch[at%underway*a.stride:][:len(piece(a.from, round*segment))]
	}
	return a.children[turn], in
}
