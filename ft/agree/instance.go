package agree

import "slices"

// instance is one agreement.
type instance struct {
	s        *sequence
	seq      uint32
	excluded ranks // who is not in its tree
	mine     proposal
	// has is what has been gathered, from this process's proposal on.
	entered  bool
	decided  bool
	boarded  bool // the line had a board when it was entered
	flat     bool // it waits at the board
	gathered frame
	counted  []int       // ranks whose contribution has been counted
	pending  []pendingUp // contributions before this process's own
	sent     int         // the rank that has our contribution; -1: nobody
	missing  int         // a child that has been found not to have contributed, or nobody
	sentTo   []int       // ranks that have been sent the decision
	value    []byte      // the memory of has.value
	own      []byte      // that of mine.Value
	up       []byte      // that of the contribution as a frame
	down     []byte      // the decision as a frame, once somebody has been sent it
}

type pendingUp struct {
	rank  int
	frame frame
}

func (i *instance) tree() tree {
	return tree{i.s.m.shape.Digit, i.s.group.Size(), i.excluded, i.s.known}
}

// children lists whose parent this process is, until it is called again.
func (i *instance) children(t *tree) []int {
	i.s.below = t.children(i.s.below[:0], i.s.rank)
	return i.s.below
}

// keepValue copies a value into the agreement's own memory.
func (i *instance) keepValue(value []byte) []byte {
	i.value = append(i.value[:0], value...)
	return i.value
}

// count folds in a member's contribution, and those that it stands for.
func (i *instance) count(rank int, f *frame) {
	if slices.Contains(i.counted, rank) {
		return
	}
	i.counted = append(i.counted, rank)
	i.gathered.merge(f)
	if op := i.mine.Op; op != nil && i.gathered.flags&flagMismatch == 0 {
		op(i.gathered.value, f.value)
	}
}

// advance sends the contribution up, or decides, once all that belong to it are there.
func (i *instance) advance() {
	if !i.entered || i.decided || i.flat {
		return
	}
	if i.missing != noRank && !i.s.known.has(i.missing) && !slices.Contains(i.counted, i.missing) {
		return
	}
	t := i.tree()
	for _, child := range i.children(&t) {
		if !slices.Contains(i.counted, child) {
			i.missing = child
			i.s.await(child)
			return
		}
	}
	switch parent := t.parent(i.s.rank); {
	case parent < 0:
		i.decide()
	case parent != i.sent:
		i.sent = parent
		i.gathered.kind = kindUp
		i.gathered.ended = i.known()
		i.up = i.gathered.encode(i.s.m.reuse(i.up))
		i.send(parent, i.up)
	}
}

// known is what is known here of who is gone; common are those of whom all that have
// been counted knew when they proposed.
func (i *instance) known() []entry {
	t := i.tree()
	if !t.hasEnded() {
		return i.gathered.ended
	}
	var now []entry
	for _, rank := range i.s.known {
		if !i.excluded.has(int(rank)) {
			now = append(now, entry{rank, i.s.m.endedProcs[i.s.group.Proc(int(rank))], true})
		}
	}
	return unite(i.gathered.ended, now)
}

func (i *instance) send(rank int, payload []byte) {
	i.s.m.emit(Action{Kind: Send, To: i.s.group.Proc(rank), Payload: payload})
}

// decide is the root's part. Whoever is known to be gone by now is agreed to be.
func (i *instance) decide() {
	has := &i.gathered
	has.kind = kindDown
	has.ended = i.known()
	for _, e := range has.ended {
		if !e.common && !e.departed { // who has departed is no failure to be acknowledged
			has.unacked.add(int(e.rank))
		}
	}
	i.grant()
	i.finish()
}

// alike reports whether a frame is of the operation that this process proposed.
func (i *instance) alike(f *frame) bool {
	return f.what == i.mine.What && len(f.value) == len(i.mine.Value) && (f.flags^i.gathered.flags)&(flagUniform|flagConfirm) == 0
}

// finish passes the decision on and has this process know it.
func (i *instance) finish() {
	l := i.s
	i.decided = true
	t := i.tree()
	for _, child := range i.children(&t) {
		i.sendDecision(child)
	}
	l.decided(i)
}

// sendDecision sends the decision to a member, once.
func (i *instance) sendDecision(rank int) {
	if !slices.Contains(i.sentTo, rank) {
		i.sentTo = append(i.sentTo, rank)
		if len(i.down) == 0 {
			i.down = i.gathered.encode(i.down)
		}
		i.send(rank, i.down)
	}
}
