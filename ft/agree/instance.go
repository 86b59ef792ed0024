package agree

import "slices"

// instance is one agreement.
type instance struct {
	s        *sequence
	seq      uint32
	excluded ranks // agreed to have ended: not in its tree
	mine     proposal
	// gathered is the union of all contributions so far, this process's proposal first.
	entered   bool
	decided   bool
	hadBallot bool // the group had a ballot when this process entered
	atBallot  bool // it waits at the ballot
	gathered  frame
	pending   []pendingUp // contributions before this process's own
	sent      int         // the rank that our contribution was sent to; -1: none
	missing   int         // a child known to be missing, or noRank
	placed    bool        // places is known
	places    *places
	memory
}

// memory is reused by the next agreement.
type memory struct {
	counted ranks  // ranks with a counted contribution; before this process's own, with one in pending
	sentTo  ranks  // ranks that have been sent the decision
	value   []byte // memory of gathered.value
	own     []byte // memory of mine.Value
	up      []byte // memory of the contribution's frame
	down    []byte // the decision's frame, once it has been sent
}

// reuse empties the memory of an agreement for another one.
func (y *memory) reuse(old *memory, m *Machine) {
	y.counted, y.sentTo, y.value, y.own = old.counted[:0], old.sentTo[:0], old.value[:0], old.own[:0]
	y.up, y.down = m.reuse(old.up), m.reuse(old.down)
}

type pendingUp struct {
	rank  int
	frame frame
}

func (i *instance) tree() tree {
	if !i.placed {
		i.place()
	}
	return tree{i.s.m.shape.Digit, i.s.group.Size(), i.excluded, i.s.known, i.places}
}

// children returns the ranks whose parent this process is, in memory that the next call overwrites.
func (i *instance) children(t *tree) []int {
	i.s.below = t.children(i.s.below[:0], i.s.rank)
	return i.s.below
}

// keepValue copies a value into the agreement's own memory.
func (i *instance) keepValue(value []byte) []byte {
	i.value = append(i.value[:0], value...)
	return i.value
}

// count adds a member's contribution, which includes the members below it.
func (i *instance) count(rank int, f *frame) {
	if !i.counted.add(rank) {
		return
	}
	i.gathered.merge(f)
	if op := i.mine.Op; op != nil && i.gathered.flags&flagMismatch == 0 {
		op(i.gathered.value, f.value)
	}
}

// advance sends the contribution up, or decides at the root, once all children have contributed.
func (i *instance) advance() {
	if !i.entered || i.decided || i.atBallot {
		return
	}
	if i.missing != noRank && !i.s.known.has(i.missing) && !i.counted.has(i.missing) {
		return
	}
	t := i.tree()
	for _, child := range i.children(&t) {
		if !i.counted.has(child) {
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

// known lists the members that this process knows to have ended; common marks those that all
// counted contributors knew when they proposed.
func (i *instance) known() []entry {
	t := i.tree()
	if !t.hasEnded() {
		return i.gathered.ended
	}
	var now []entry
	for _, rank := range i.s.known {
		if !i.excluded.has(int(rank)) {
			now = append(now, entry{rank, i.s.m.left.has(i.s.group.Proc(int(rank))), true})
		}
	}
	return unite(i.gathered.ended, now)
}

func (i *instance) send(rank int, payload []byte) {
	a := i.s.m.emit(Send)
	a.To, a.Payload = i.s.group.Proc(rank), payload
}

// decide makes the decision at the root. All members known to have ended by now are agreed to have.
func (i *instance) decide() {
	has := &i.gathered
	has.kind = kindDown
	has.ended = i.known()
	for _, e := range has.ended {
		if !e.common && !e.departed { // a departure needs no acknowledgement
			has.unacked.add(int(e.rank))
		}
	}
	i.makeBallot()
	i.finish()
}

// alike reports whether a frame belongs to the operation that this process proposed.
func (i *instance) alike(f *frame) bool {
	return f.what == i.mine.What && len(f.value) == len(i.mine.Value) &&
		(f.flags^i.gathered.flags)&(flagUniform|flagConfirm) == 0
}

// finish forwards the decision and delivers it here.
func (i *instance) finish() {
	i.decided = true
	i.forward()
	i.s.decided(i)
}

// compact leaves of a decision that names many members the frame only, which may have to be sent again.
func (i *instance) compact() {
	if len(i.down) == 0 {
		i.down = i.gathered.encode(i.down)
	}
	i.down = slices.Clip(slices.Clone(i.down))
	i.gathered.ended, i.gathered.unacked = nil, nil
}

// forward sends the decision to the children.
func (i *instance) forward() {
	t := i.tree()
	for _, child := range i.children(&t) {
		i.sendDecision(child)
	}
}

// sendDecision sends the decision to a member, once.
func (i *instance) sendDecision(rank int) {
	if i.sentTo.add(rank) {
		if len(i.down) == 0 {
			i.down = i.gathered.encode(i.down)
		}
		i.send(rank, i.down)
	}
}
