package agree

import "slices"

// instance is one agreement.
type instance struct {
	l    *line
	seq  uint32
	base ranks // who is not in its tree
	mine proposal
	// has is what has been gathered, from this process's proposal on.
	entered bool
	decided bool
	boarded bool // the line had a board when it was entered
	flat    bool // it waits at the board
	has     frame
	from    []int     // ranks whose contribution has been counted
	early   []earlyUp // contributions before this process's own
	sent    int       // the rank that has our contribution; -1: nobody
	lacks   int       // a child that has been found not to have contributed, or nobody
	told    []int     // ranks that have been sent the decision
	value   []byte    // the memory of has.value
	up      []byte    // that of the contribution as a frame
	down    []byte    // the decision as a frame, once somebody has been sent it
}

type earlyUp struct {
	rank  int
	frame frame
}

func (i *instance) tree() tree { return tree{i.l.m.shape.Digit, i.l.group.Size(), i.base, i.l.gone} }

// children lists whose parent this process is, until it is called again.
func (i *instance) children(t *tree) []int {
	i.l.below = t.children(i.l.below[:0], i.l.rank)
	return i.l.below
}

// keep copies a value into the agreement's own memory.
func (i *instance) keep(value []byte) []byte {
	i.value = append(i.value[:0], value...)
	return i.value
}

// count folds in a member's contribution, and those that it stands for.
func (i *instance) count(rank int, f *frame) {
	if slices.Contains(i.from, rank) {
		return
	}
	i.from = append(i.from, rank)
	i.has.merge(f)
	if op := i.mine.Op; op != nil && i.has.flags&flagUnlike == 0 {
		op(i.has.value, f.value)
	}
}

// advance sends the contribution up, or decides, once all that belong to it are there.
func (i *instance) advance() {
	if !i.entered || i.decided || i.flat {
		return
	}
	if i.lacks != nobody && !i.l.gone.has(i.lacks) && !slices.Contains(i.from, i.lacks) {
		return
	}
	t := i.tree()
	for _, child := range i.children(&t) {
		if !slices.Contains(i.from, child) {
			i.lacks = child
			i.l.await(child)
			return
		}
	}
	switch parent := t.parent(i.l.rank); {
	case parent < 0:
		i.decide()
	case parent != i.sent:
		i.sent = parent
		i.has.kind = kindUp
		i.has.gone = i.known()
		i.up = i.has.encode(i.l.m.free(i.up))
		i.send(parent, i.up)
	}
}

// known is what is known here of who is gone; common are those of whom all that have
// been counted knew when they proposed.
func (i *instance) known() []entry {
	t := i.tree()
	if !t.bent() {
		return i.has.gone
	}
	var now []entry
	for _, rank := range i.l.gone {
		if !i.base.has(int(rank)) {
			now = append(now, entry{rank, i.l.m.gone[i.l.group.Proc(int(rank))], true})
		}
	}
	return unite(i.has.gone, now)
}

func (i *instance) send(rank int, payload []byte) {
	i.l.m.do(Action{Kind: Send, To: i.l.group.Proc(rank), Payload: payload})
}

// decide is the root's part. Whoever is known to be gone by now is agreed to be.
func (i *instance) decide() {
	has := &i.has
	has.kind = kindDown
	has.gone = i.known()
	for _, e := range has.gone {
		if !e.common && !e.departed { // who has departed is no failure to be acknowledged
			has.unacked.add(int(e.rank))
		}
	}
	i.grant()
	i.conclude()
}

// alike reports whether a frame is of the operation that this process proposed.
func (i *instance) alike(f *frame) bool {
	return f.what == i.mine.What && len(f.value) == len(i.mine.Value) && (f.flags^i.has.flags)&(flagUniform|flagConfirm) == 0
}

// conclude passes the decision on and has this process know it.
func (i *instance) conclude() {
	l := i.l
	i.decided = true
	t := i.tree()
	for _, child := range i.children(&t) {
		i.tell(child)
	}
	l.decided(i)
}

// tell sends the decision to a member, once.
func (i *instance) tell(rank int) {
	if !slices.Contains(i.told, rank) {
		i.told = append(i.told, rank)
		if len(i.down) == 0 {
			i.down = i.has.encode(i.down)
		}
		i.send(rank, i.down)
	}
}
