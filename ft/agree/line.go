package agree

import (
	"fmt"
	"slices"

	"github.com/banyan-hpc/banyan/internal/proc"
)

// line is the agreements of one group, of which one at a time runs.
type line struct {
	m     *Machine
	id    Line
	group Group
	rank  int
	gone  ranks // members known to be gone
	base  ranks // of those, the ones that are agreed to be
	quit  ranks // of base, the ones that are agreed to have departed
	// agreed is base as decisions have it, which share it.
	agreed []Gone
	// awaited are members of whom an Await has been said.
	awaited ranks
	// cur is the agreement that runs, or will begin; old the one before, decided.
	cur, old *instance
	queue    []proposal // whose turn has not come
	proposed uint32     // calls of Propose
	folded   []byte     // memory of fold
	spare    *Decision  // memory for the next one, or nil
	result   *Decision  // of the first round of a uniform proposal whose second one runs
	later    []entry    // agreed to be gone by a second round: new in the next decision
	waiting  []held     // for a death to be known, or for a later agreement to begin
	below    []int      // see children
	flat     flat       // the board, if there is one
	asked    proc.ID    // 1 + the root to whom a connection has been asked for; 0: none
	frame    frame      // memory for the next one that is heard
}

// proposal is a Proposal and its number; or the second round of one.
type proposal struct {
	Proposal
	number  uint32
	confirm bool
}

// begin gives the next agreement. The record of the one before the last, old, is used again, with its
// memory.
func (l *line) begin(seq uint32, old *instance) *instance {
	if old == nil {
		old = new(instance)
	}
	*old = instance{
		l: l, seq: seq, base: l.base, sent: -1, lacks: nobody,
		own: old.own[:0], from: old.from[:0], told: old.told[:0], value: old.value[:0], up: l.m.free(old.up), down: l.m.free(old.down),
	}
	return old
}

func (l *line) propose(p Proposal) uint32 {
	l.proposed++
	number := l.proposed // a decision may come in between
	if i := l.cur; !i.entered && len(l.queue) == 0 {
		i.own = append(i.own, p.Value...)
		p.Value = i.own
		i.enter(proposal{Proposal: p, number: number})
		return number
	}
	p.Value = slices.Clone(p.Value)
	l.queue = append(l.queue, proposal{Proposal: p, number: number})
	l.enter()
	return number
}

// enter has the next proposal take part, if its agreement's turn has come.
func (l *line) enter() {
	if l.cur.entered || len(l.queue) == 0 {
		return
	}
	p := l.queue[0]
	l.queue = slices.Delete(l.queue, 0, 1)
	l.cur.enter(p)
}

// enter has a proposal take part.
func (i *instance) enter(p proposal) {
	l := i.l
	i.entered, i.mine = true, p
	i.has = frame{what: p.What, line: l.id, seq: i.seq, value: i.keep(p.Value)}
	if p.Uniform {
		i.has.flags |= flagUniform
	}
	if p.confirm {
		i.has.flags |= flagConfirm
	}
	i.has.flags |= p.yielding()
	if l.offers() {
		i.has.flags |= flagBoard
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
	if l.post(i) {
		l.resume()
		return
	}
	i.advance()
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
	if f.kind == kindWake {
		if l.cur.flat {
			l.resume()
		}
		return nil
	}
	if wait, needs := l.early(&f); wait {
		h, err := l.m.keep(from, payload, needs)
		if err == nil {
			l.waiting = append(l.waiting, h)
		}
		return err
	}
	return l.look(rank, &f)
}

// nobody stands for no rank.
const nobody = -1

// early reports whether a frame has to wait: for its agreement, or for ends that it names to be known
// here, which are reported. Needs is one of these, the last that is reported.
func (l *line) early(f *frame) (wait bool, needs int) {
	future := int32(f.seq-l.cur.seq) > 0 // numbers wrap around
	needs = nobody
	if l.m.broken == eagerUps && f.kind == kindUp {
		return future, nobody
	}
	for _, e := range f.gone {
		if rank := int(e.rank); rank != l.rank && !l.gone.has(rank) {
			needs = rank
			l.m.do(Action{Kind: Report, Peer: l.group.Proc(rank), Departed: e.departed})
		}
	}
	return future || needs != nobody, needs
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

// await says that a member is waited for, who may never have had to do with this process.
func (l *line) await(rank int) {
	if l.awaited.add(rank) {
		l.m.do(Action{Kind: Await, Peer: l.group.Proc(rank)})
	}
}

// settle takes a decision over.
func (l *line) settle(i *instance, rank int, f *frame) error {
	switch {
	case i.decided:
		return nil
	case !i.entered:
		return fmt.Errorf("from rank %d: %w: a decision without this process", rank, errFrame)
	case f.flags&flagUnlike == 0 && !i.alike(f):
		return fmt.Errorf("from rank %d: %w: a decision on something else", rank, errFrame)
	case f.names() && !l.install(f):
		return fmt.Errorf("from rank %d: %w: a decision that names no board", rank, errFrame)
	}
	if i.flat {
		l.leave(i)
	}
	i.told = append(i.told, rank)
	i.has = *f
	i.has.value, i.has.gone, i.has.unacked = i.keep(f.value), slices.Clone(f.gone), slices.Clone(f.unacked)
	i.conclude()
	return nil
}

// decided ends an agreement on this process and lets the next begin.
func (l *line) decided(i *instance) {
	if len(i.has.gone) > 0 {
		base := slices.Clone(l.base)
		for _, e := range i.has.gone {
			base.add(int(e.rank))
			if e.departed {
				l.quit.add(int(e.rank))
			}
		}
		l.base = base
	}
	l.old, l.cur = i, l.begin(i.seq+1, l.old)
	if l.flat.Board != nil && (len(i.has.gone) > 0 || i.has.names()) {
		l.survey()
		for _, rank := range l.flat.near { // who may have to wake this process
			l.await(rank)
		}
	}
	if i.yielded() {
		again := i.mine
		again.Value = slices.Clone(again.Value)
		l.queue = slices.Insert(l.queue, 0, again)
		l.later = unite(l.later, i.has.gone)
		l.enter()
		l.again()
		return
	}
	d := l.decision(i)
	switch first := l.result; {
	case i.mine.confirm:
		// What the second round alone found is not the same at those who die in it.
		l.result, l.later = nil, i.has.gone
		l.m.do(Action{Kind: Decide, Decision: first, Then: i.mine.Then})
	case i.mine.Uniform && !d.Unlike && i.has.flags&flagBinds == 0:
		l.result = d
		second := i.mine
		second.confirm, second.Value, second.Op = true, nil, nil
		l.queue = slices.Insert(l.queue, 0, second)
	default:
		l.m.do(Action{Kind: Decide, Decision: d, Then: i.mine.Then})
	}
	l.enter()
	l.again()
}

// decision is what an agreement tells its caller.
func (l *line) decision(i *instance) *Decision {
	d := l.spare
	if l.spare = nil; d == nil {
		d = new(Decision)
	}
	*d = Decision{
		Line: l.id, Seq: i.mine.number, Number: i.seq, What: i.has.what, Value: append(d.Value[:0], i.has.value...),
		Unlike:  i.has.flags&flagUnlike != 0,
		Refused: i.has.flags&flagRefused != 0,
	}
	if len(l.agreed) != len(l.base) {
		l.agreed = make([]Gone, 0, len(l.base))
		for _, rank := range l.base {
			// not what this process knows of it: that may differ
			who := l.group.Proc(int(rank))
			l.agreed = append(l.agreed, Gone{who, l.quit.has(int(rank))})
		}
	}
	d.Gone = slices.Clip(l.agreed)
	if len(l.later)+len(i.has.gone) > 0 {
		for _, e := range unite(l.later, i.has.gone) {
			d.New = append(d.New, Gone{l.group.Proc(int(e.rank)), e.departed})
		}
		l.later = nil
	}
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
		if _, gone := l.m.gone[h.from]; h.needs != nobody && !l.gone.has(h.needs) && !gone {
			l.waiting = append(l.waiting, h)
			continue
		}
		l.m.unkeep(h)
		l.take(h)
	}
}

// take looks at a frame that waited.
func (l *line) take(h held) {
	if err := l.heard(h.from, h.payload); err != nil {
		l.m.do(Action{Kind: Report, Peer: h.from, Why: err})
	}
}
