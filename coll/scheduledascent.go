package coll

import (
	"slices"

	"github.com/banyan-hpc/banyan/p2p"
)

// rising is a reduction on its way up a tree where marks may come, as [ascent]. In each round a message comes from every child whose mark has
// promised so many, and one goes to the parent if this rank's has. Where lengths do not fit they are the same, and come to nothing.
type rising struct {
	parent            int   // -1 at the root
	children          []int // the smallest subtree first
	from, to, scratch []byte
	into              []byte // for what a child sends first
	stride            int    // from one part of scratch to the next; segments take them in turn
	own               int    // how many messages follow this rank's mark
	promised          []int  // by child, how many follow its mark
	rounds            int    // the most of these
	at                int    // which message has come, counted by rounds and children; -1: none
	again             int    // the step that waits for the next one
	asked             int    // so many have been asked for
	// coming and up are what is under way from the children and to the parent, and not waited for yet.
	coming [ahead]p2p.Handle
	up     p2p.Handle
}

// renew makes it ready for the next operation, if there is one.
func (u *rising) renew() {
	if u != nil {
		*u = rising{children: u.children[:0], promised: u.promised[:0]}
	}
}

// following is how many messages follow the mark of so many bytes.
func following(length int) int { return (length + segment - 1) / segment }

// climbMarked is climb where marks may come; long: this rank sends one, and its buffer in segments.
func (s *Schedule) climbMarked(r *route, from, to, scratch []byte, long bool) {
	if s.rise == nil {
		s.rise = new(rising)
	}
	u := s.rise
	u.parent, u.at = r.parent, -1
	for _, child := range slices.Backward(r.children) {
		u.children = append(u.children, child)
	}
	u.from, u.to, u.scratch, u.into, u.stride = from, to, scratch, scratch, segment
	if long || len(scratch) < len(mark{}) {
		u.into = s.twoMarks()[1][:]
	}
	if long {
		u.own = following(len(from))
		if len(from) < segment {
			u.stride, u.scratch = len(from), make([]byte, ahead*len(from))
		}
		if u.parent >= 0 {
			s.add(stepSend, u.parent, nil, s.twoMarks()[0].set(len(from), 0))
		}
	} else if len(u.children) > 0 {
		s.add(stepCopy, 0, to, from)
	}
	u.rounds = u.own
	for _, child := range u.children {
		s.add(stepRecvChild, child, u.into, nil)
		s.wait()
		if !long {
			s.add(stepCopy, 0, scratch, u.into)
			s.add(stepFold, 0, to, scratch)
		}
	}
	if !long && u.parent >= 0 {
		s.add(stepSend, u.parent, nil, u.out())
	}
	u.again = len(s.steps)
	s.wait()
	s.add(stepTakeIn, 0, nil, nil)
	s.wait()
	s.add(stepClimbOn, 0, nil, nil)
	s.wait()
}

// out is what goes to the parent.
func (u *rising) out() []byte {
	if len(u.children) > 0 {
		return u.to
	}
	return u.from
}

// offered looks at the first message of a child.
func (u *rising) offered(w *p2p.Comm, st p2p.Status, err error) (whole int, _ error) {
	if err != nil || !shows(u.into, st.Count) {
		u.promised = append(u.promised, 0)
		return fit(w, st, err, len(u.from))
	}
	total := marked(u.into)
	u.promised = append(u.promised, following(total))
	u.rounds = max(u.rounds, following(total))
	if total != len(u.from) || u.own == 0 {
		err = unlike(w, total, len(u.from))
	}
	return st.Count, err
}

// takeIn folds the message that has been waited for. After the last one of a round, which goes to the parent, the one before it is waited for.
func (s *Schedule) takeIn() {
	u := s.rise
	if child, in := u.incoming(u.at); child >= 0 && !s.spoiled {
		round, turn := u.position(u.at)
		out := piece(u.to, round*segment)
		if turn == 0 {
			copy(out, piece(u.from, round*segment))
		}
		s.fold(out, in)
	}
	if u.goesUp(u.at) {
		s.now(&u.up, sent)
	}
}

// climbOn sends what a round has come to, nothing if a length did not fit, and goes back to the wait for the next message until there is none.
func (s *Schedule) climbOn() {
	u := s.rise
	if u.goesUp(u.at) {
		round, _ := u.position(u.at)
		var out []byte
		if !s.spoiled {
			out = piece(u.out(), round*segment)
		}
		u.up = s.isend(out, u.parent)
	}
	u.at++
	for ; u.asked < min(u.at+ahead, u.rounds*u.width()); u.asked++ {
		if child, in := u.incoming(u.asked); child >= 0 {
			u.coming[u.asked%ahead] = s.irecv(in, child)
		}
	}
	if u.at == u.rounds*u.width() {
		return
	}
	_, in := u.incoming(u.at)
	s.now(&u.coming[u.at%ahead], len(in))
	s.at = u.again
}

// position gives the round and the child of the message with a number; -1, 0: none.
func (u *rising) position(at int) (round, turn int) {
	if at < 0 {
		return -1, 0
	}
	return at / u.width(), at % u.width()
}

// goesUp reports whether the parent is sent something after it.
func (u *rising) goesUp(at int) bool {
	round, turn := u.position(at)
	return u.parent >= 0 && round >= 0 && round < u.own && turn == u.width()-1
}

// width is how many messages a round has room for: who has no children sends in rounds, too.
func (u *rising) width() int { return max(1, len(u.children)) }

// incoming gives from which child a message comes, and where it goes, which is nowhere if this rank streams no such; -1: none.
func (u *rising) incoming(at int) (child int, in []byte) {
	round, turn := u.position(at)
	if round < 0 || turn >= len(u.promised) || u.promised[turn] <= round {
		return -1, nil
	}
	if round < u.own {
		in = u.scratch[at%ahead*u.stride:][:len(piece(u.from, round*segment))]
	}
	return u.children[turn], in
}
