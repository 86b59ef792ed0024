package agree

import (
	"fmt"
	"slices"

	"github.com/banyan-hpc/banyan/proc"
)

// line is the agreements of one group, of which one at a time runs.
type line struct {
	m     *Machine
	id    Line
	group Group
	rank  int
	gone  ranks // members known to be gone
	base  ranks // of those, the ones that are agreed to be
	// agreed is base as decisions have it, which share it.
	agreed []Gone
	away   ranks // of those, the ones that are agreed to have departed
	// cur is the agreement that runs, or will begin; old the one before, decided.
	cur, old *instance
	queue    []proposal // whose turn has not come
	proposed uint32     // calls of Propose
	result   *Decision  // of the first round of a uniform proposal whose second one runs
	later    []entry    // agreed to be gone by a second round: new in the next decision
	waiting  []held     // for a death to be known, or for a later agreement to begin
	below    []int      // see children
	frame    frame      // memory for the next one that is heard
}

// proposal is a Proposal and its number; or the second round of one.
type proposal struct {
	Proposal
	number  uint32
	confirm bool
}

// instance is one agreement.
type instance struct {
	l    *line
	seq  uint32
	base ranks // who is not in its tree
	mine proposal
	// has is what has been gathered, from this process's proposal on.
	entered bool
	decided bool
	has     frame
	from    []int     // ranks whose contribution has been counted
	early   []earlyUp // contributions before this process's own
	sent    int       // the rank that has our contribution; -1: nobody
	parent  int       // whom the decision came from, or went to; -1: nobody
	told    []int     // ranks that have been sent the decision
	value   []byte    // the memory of has.value
	up      []byte    // that of the contribution as a frame
	down    []byte    // the decision as a frame, once somebody has been sent it
}

type earlyUp struct {
	rank  int
	frame frame
}

// begin gives the next agreement. The record of the one before the last, old, is used again, with its
// memory.
func (l *line) begin(seq uint32, old *instance) *instance {
	if old == nil {
		old = new(instance)
	}
	*old = instance{
		l: l, seq: seq, base: l.base, sent: -1, parent: -1,
		from: old.from[:0], told: old.told[:0], value: old.value[:0], up: l.m.free(old.up), down: l.m.free(old.down),
	}
	return old
}

func (i *instance) tree() tree { return tree{i.l.m.shape.Digit, i.l.group.Size(), i.base, i.l.gone} }

// children lists whose parent this process is, until it is called again.
func (i *instance) children(t *tree) []int {
	i.l.below = t.children(i.l.below[:0], i.l.rank)
	return i.l.below
}

func (l *line) propose(p Proposal) uint32 {
	p.Value = slices.Clone(p.Value)
	l.proposed++
	l.queue = append(l.queue, proposal{Proposal: p, number: l.proposed})
	l.enter()
	return l.proposed
}

// enter has the next proposal take part, if its agreement's turn has come.
func (l *line) enter() {
	i := l.cur
	if i.entered || len(l.queue) == 0 {
		return
	}
	p := l.queue[0]
	l.queue = slices.Delete(l.queue, 0, 1)
	i.entered, i.mine = true, p
	i.has = frame{what: p.What, line: l.id, seq: i.seq, value: i.keep(p.Value)}
	if p.Uniform {
		i.has.flags |= flagUniform
	}
	if p.confirm {
		i.has.flags |= flagConfirm
	}
	for _, rank := range l.gone {
		who := l.group.Proc(int(rank))
		if !l.base.has(int(rank)) {
			i.has.gone = append(i.has.gone, entry{rank, l.m.gone[who], true})
		}
		if p.Acked != nil && !p.Acked(who) {
			i.has.unacked = append(i.has.unacked, rank)
		}
	}
	for _, e := range i.early {
		i.count(e.rank, &e.frame)
	}
	i.early = nil
	i.advance()
}

// keep copies a value into the agreement's own memory.
func (i *instance) keep(value []byte) []byte {
	i.value = append(i.value[:0], value...)
	return i.value
}

// heard takes in a frame of this line.
func (l *line) heard(from proc.ID, payload []byte) error {
	if _, gone := l.m.gone[from]; gone && l.m.broken != unfenced {
		return nil
	}
	rank := l.group.Rank(from)
	if rank < 0 {
		return fmt.Errorf("from %v: %w: no member of the group", from, errFrame)
	}
	f := l.frame
	l.frame = frame{} // this may be called again before it returns
	defer func() { l.frame = f }()
	if err := f.decode(payload, l.group.Size()); err != nil {
		return fmt.Errorf("from %v: %w", from, err)
	}
	if l.early(&f) {
		if err := l.m.keep(from); err != nil {
			return err
		}
		l.waiting = append(l.waiting, held{from, slices.Clone(payload)})
		return nil
	}
	return l.look(rank, &f)
}

// early reports whether a frame has to wait: for its agreement, or for deaths that it names to be known
// here, which are reported.
func (l *line) early(f *frame) bool {
	if l.m.broken == eagerUps && f.kind == kindUp {
		return f.seq > l.cur.seq
	}
	wait := false
	for _, e := range f.gone {
		if l.gone.has(int(e.rank)) || int(e.rank) == l.rank {
			continue
		}
		if who := l.group.Proc(int(e.rank)); e.departed {
			l.m.Departed(who) // nothing that it would say counts any more
		} else {
			wait = true
			l.m.do(Action{Kind: Report, Peer: who})
		}
	}
	return wait || f.seq > l.cur.seq
}

// look does what a frame asks for. Preconditions: it is not early.
func (l *line) look(rank int, f *frame) error {
	i := l.cur
	if f.seq != i.seq {
		if i = l.old; i == nil || f.seq != i.seq {
			return nil // everybody has that decision: it was sent twice
		}
	}
	if slices.ContainsFunc(f.gone, func(e entry) bool { return int(e.rank) == l.rank }) {
		return nil // this process counts as dead there, and will learn it
	}
	if f.kind == kindDown {
		return l.settle(i, rank, f)
	}
	switch {
	case i.decided:
		i.tell(rank)
	case !i.entered:
		early := *f
		early.value, early.gone, early.unacked = slices.Clone(f.value), slices.Clone(f.gone), slices.Clone(f.unacked)
		i.early = append(i.early, earlyUp{rank, early})
	default:
		i.count(rank, f)
		i.advance()
	}
	return nil
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
	if !i.entered || i.decided {
		return
	}
	t := i.tree()
	children := i.children(&t)
	if len(i.from) < len(children) {
		return
	}
	for _, child := range children {
		if !slices.Contains(i.from, child) {
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
		if !e.common && !e.departed { // to have departed is no failure
			has.unacked.add(int(e.rank))
		}
	}
	i.conclude()
}

// settle takes a decision over.
func (l *line) settle(i *instance, rank int, f *frame) error {
	switch {
	case i.decided:
		return nil
	case !i.entered:
		return fmt.Errorf("from rank %d: %w: a decision without this process", rank, errFrame)
	}
	i.parent = rank
	i.told = append(i.told, rank)
	i.has = *f
	i.has.value, i.has.gone, i.has.unacked = i.keep(f.value), slices.Clone(f.gone), slices.Clone(f.unacked)
	i.conclude()
	return nil
}

// conclude passes the decision on and has this process know it.
func (i *instance) conclude() {
	l := i.l
	i.decided = true
	t := i.tree()
	for _, child := range i.children(&t) {
		i.tell(child)
	}
	if i.parent < 0 {
		i.parent = t.parent(l.rank)
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

// decided ends an agreement on this process and lets the next begin.
func (l *line) decided(i *instance) {
	if len(i.has.gone) > 0 {
		base := slices.Clone(l.base)
		for _, e := range i.has.gone {
			base.add(int(e.rank))
			if e.departed {
				l.away.add(int(e.rank))
			}
		}
		l.base = base
	}
	l.old, l.cur = i, l.begin(i.seq+1, l.old)
	d := l.decision(i)
	switch first := l.result; {
	case i.mine.confirm:
		// What the second round alone found is not the same at those who die in it.
		l.result, l.later = nil, i.has.gone
		l.m.do(Action{Kind: Decide, Decision: first})
	case i.mine.Uniform && !d.Unlike:
		l.result = d
		second := i.mine
		second.confirm, second.Value, second.Op = true, nil, nil
		l.queue = slices.Insert(l.queue, 0, second)
	default:
		l.m.do(Action{Kind: Decide, Decision: d})
	}
	l.enter()
	l.again()
}

// decision is what an agreement tells its caller.
func (l *line) decision(i *instance) *Decision {
	d := &Decision{
		Line: l.id, Seq: i.mine.number, What: i.has.what, Value: slices.Clone(i.has.value), Unlike: i.has.flags&flagUnlike != 0,
	}
	if len(l.agreed) != len(l.base) {
		l.agreed = make([]Gone, 0, len(l.base))
		for _, rank := range l.base {
			// not what this process knows of it: that may differ
			who := l.group.Proc(int(rank))
			l.agreed = append(l.agreed, Gone{who, l.away.has(int(rank))})
		}
	}
	d.Gone = slices.Clip(l.agreed)
	for _, e := range unite(l.later, i.has.gone) {
		d.New = append(d.New, Gone{l.group.Proc(int(e.rank)), e.departed})
	}
	l.later = nil
	for _, rank := range i.has.unacked {
		d.Unacked = append(d.Unacked, l.group.Proc(int(rank)))
	}
	return d
}

// again looks at the frames that waited.
func (l *line) again() {
	waiting := l.waiting
	l.waiting = nil
	for _, h := range waiting {
		l.m.owed[h.from]--
		_ = l.heard(h.from, h.payload) // it was decoded before
	}
}
