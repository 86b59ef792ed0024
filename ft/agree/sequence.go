package agree

import (
	"fmt"
	"slices"

	"github.com/banyan-hpc/banyan/internal/proc"
)

// sequence is the agreements of one group, of which one at a time runs.
type sequence struct {
	m        *Machine
	key      GroupKey
	group    Group
	rank     int
	known    ranks // members known to be gone
	agreed   ranks // of those, the ones that are agreed to be
	departed ranks // of base, the ones that are agreed to have departed
	// endedList is base as decisions have it, which share it.
	endedList []Ended
	// awaited are members of whom an Await has been said.
	awaited ranks
	// cur is the agreement that runs, or will begin; old the one before, decided.
	cur, old     *instance
	queue        []proposal  // whose turn has not come
	proposed     uint32      // calls of Propose
	folded       []byte      // memory of fold
	spare        *Decision   // memory for the next one, or nil
	result       *Decision   // of the first round of a uniform proposal whose second one runs
	carried      []entry     // agreed to be gone by a second round: new in the next decision
	held         []heldFrame // for a death to be known, or for a later agreement to begin
	below        []int       // see children
	flat         flat        // the board, if there is one
	connectAsked proc.ID     // 1 + the root to whom a connection has been asked for; 0: none
	frame        frame       // memory for the next one that is heard
}

// proposal is a Proposal and its number; or the second round of one.
type proposal struct {
	Proposal
	number  uint32
	confirm bool
}

// begin gives the next agreement. The record of the one before the last, old, is used again, with its
// memory.
func (l *sequence) begin(seq uint32, old *instance) *instance {
	if old == nil {
		old = new(instance)
	}
	*old = instance{
		s: l, seq: seq, excluded: l.agreed, sent: -1, missing: noRank,
		own: old.own[:0], counted: old.counted[:0], sentTo: old.sentTo[:0], value: old.value[:0], up: l.m.reuse(old.up), down: l.m.reuse(old.down),
	}
	return old
}

func (l *sequence) propose(p Proposal) uint32 {
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
func (l *sequence) enter() {
	if l.cur.entered || len(l.queue) == 0 {
		return
	}
	p := l.queue[0]
	l.queue = slices.Delete(l.queue, 0, 1)
	l.cur.enter(p)
}

// enter has a proposal take part.
func (i *instance) enter(p proposal) {
	l := i.s
	i.entered, i.mine = true, p
	i.gathered = frame{what: p.What, key: l.key, seq: i.seq, value: i.keepValue(p.Value)}
	if p.Uniform {
		i.gathered.flags |= flagUniform
	}
	if p.confirm {
		i.gathered.flags |= flagConfirm
	}
	i.gathered.flags |= p.yielding()
	if l.offers() {
		i.gathered.flags |= flagBallot
	}
	for _, rank := range l.known {
		who := l.group.Proc(int(rank))
		if !l.agreed.has(int(rank)) {
			i.gathered.ended = append(i.gathered.ended, entry{rank, l.m.endedProcs[who], true})
		}
		if p.Acked != nil && !p.Acked(who) {
			i.gathered.unacked = append(i.gathered.unacked, rank)
		}
	}
	for _, e := range i.pending {
		i.count(e.rank, &e.frame)
	}
	i.pending = nil
	if l.post(i) {
		l.resume()
		return
	}
	i.advance()
}

// receive takes in a frame of this line.
func (l *sequence) receive(from proc.ID, payload []byte) error {
	if _, gone := l.m.endedProcs[from]; gone && l.m.broken != unfenced {
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
	if wait, needs := l.mustWait(&f); wait {
		h, err := l.m.keep(from, payload, needs)
		if err == nil {
			l.held = append(l.held, h)
		}
		return err
	}
	return l.dispatch(rank, &f)
}

// noRank stands for no rank.
const noRank = -1

// mustWait reports whether a frame has to wait: for its agreement, or for ends that it names to be known
// here, which are reported. Needs is one of these, the last that is reported.
func (l *sequence) mustWait(f *frame) (wait bool, needs int) {
	future := int32(f.seq-l.cur.seq) > 0 // numbers wrap around
	needs = noRank
	if l.m.broken == eagerUps && f.kind == kindUp {
		return future, noRank
	}
	for _, e := range f.ended {
		if rank := int(e.rank); rank != l.rank && !l.known.has(rank) {
			needs = rank
			l.m.emit(Action{Kind: Report, Peer: l.group.Proc(rank), Departed: e.departed})
		}
	}
	return future || needs != noRank, needs
}

// dispatch does what a frame asks for. Preconditions: it is not early.
func (l *sequence) dispatch(rank int, f *frame) error {
	i := l.cur
	if f.seq != i.seq {
		if i = l.old; i == nil || f.seq != i.seq {
			return nil // everybody has that decision: it was sent twice
		}
	}
	if slices.ContainsFunc(f.ended, func(e entry) bool { return int(e.rank) == l.rank }) {
		return nil // this process counts as dead there, and will learn it
	}
	if f.kind == kindDown {
		return l.adopt(i, rank, f)
	}
	switch {
	case i.decided:
		i.sendDecision(rank)
	case !i.entered:
		early := *f
		early.value, early.ended, early.unacked = slices.Clone(f.value), slices.Clone(f.ended), slices.Clone(f.unacked)
		i.pending = append(i.pending, pendingUp{rank, early})
	default:
		i.count(rank, f)
		i.advance()
	}
	return nil
}

// await says that a member is waited for, who may never have had to do with this process.
func (l *sequence) await(rank int) {
	if l.awaited.add(rank) {
		l.m.emit(Action{Kind: Await, Peer: l.group.Proc(rank)})
	}
}

// adopt takes a decision over.
func (l *sequence) adopt(i *instance, rank int, f *frame) error {
	switch {
	case i.decided:
		return nil
	case !i.entered:
		return fmt.Errorf("from rank %d: %w: a decision without this process", rank, errFrame)
	case f.flags&flagMismatch == 0 && !i.alike(f):
		return fmt.Errorf("from rank %d: %w: a decision on something else", rank, errFrame)
	case f.namesBallot() && !l.install(f):
		return fmt.Errorf("from rank %d: %w: a decision that names no board", rank, errFrame)
	}
	if i.flat {
		l.leave(i)
	}
	i.sentTo = append(i.sentTo, rank)
	i.gathered = *f
	i.gathered.value, i.gathered.ended, i.gathered.unacked = i.keepValue(f.value), slices.Clone(f.ended), slices.Clone(f.unacked)
	i.finish()
	return nil
}

// decided ends an agreement on this process and lets the next begin.
func (l *sequence) decided(i *instance) {
	if len(i.gathered.ended) > 0 {
		base := slices.Clone(l.agreed)
		for _, e := range i.gathered.ended {
			base.add(int(e.rank))
			if e.departed {
				l.departed.add(int(e.rank))
			}
		}
		l.agreed = base
	}
	l.old, l.cur = i, l.begin(i.seq+1, l.old)
	if l.flat.Board != nil && (len(i.gathered.ended) > 0 || i.gathered.namesBallot()) {
		l.survey()
		for _, rank := range l.flat.near { // who may have to wake this process
			l.await(rank)
		}
	}
	if i.yielded() {
		again := i.mine
		again.Value = slices.Clone(again.Value)
		l.queue = slices.Insert(l.queue, 0, again)
		l.carried = unite(l.carried, i.gathered.ended)
		l.enter()
		l.retryHeld()
		return
	}
	d := l.decision(i)
	switch first := l.result; {
	case i.mine.confirm:
		// What the second round alone found is not the same at those who die in it.
		l.result, l.carried = nil, i.gathered.ended
		l.m.emit(Action{Kind: Decide, Decision: first, Then: i.mine.Then})
	case i.mine.Uniform && !d.Mismatch && i.gathered.flags&flagBinds == 0:
		l.result = d
		second := i.mine
		second.confirm, second.Value, second.Op = true, nil, nil
		l.queue = slices.Insert(l.queue, 0, second)
	default:
		l.m.emit(Action{Kind: Decide, Decision: d, Then: i.mine.Then})
	}
	l.enter()
	l.retryHeld()
}

// decision is what an agreement tells its caller.
func (l *sequence) decision(i *instance) *Decision {
	d := l.spare
	if l.spare = nil; d == nil {
		d = new(Decision)
	}
	*d = Decision{
		Key: l.key, Seq: i.mine.number, Number: i.seq, What: i.gathered.what, Value: append(d.Value[:0], i.gathered.value...),
		Mismatch: i.gathered.flags&flagMismatch != 0,
		Refused:  i.gathered.flags&flagRefused != 0,
	}
	if len(l.endedList) != len(l.agreed) {
		l.endedList = make([]Ended, 0, len(l.agreed))
		for _, rank := range l.agreed {
			// not what this process knows of it: that may differ
			who := l.group.Proc(int(rank))
			l.endedList = append(l.endedList, Ended{who, l.departed.has(int(rank))})
		}
	}
	d.Ended = slices.Clip(l.endedList)
	if len(l.carried)+len(i.gathered.ended) > 0 {
		for _, e := range unite(l.carried, i.gathered.ended) {
			d.New = append(d.New, Ended{l.group.Proc(int(e.rank)), e.departed})
		}
		l.carried = nil
	}
	for _, rank := range i.gathered.unacked {
		d.Unacked = append(d.Unacked, l.group.Proc(int(rank)))
	}
	return d
}

// retryHeld looks at the frames that waited.
func (l *sequence) retryHeld() {
	waiting := l.held
	l.held = nil
	for _, h := range waiting {
		if _, gone := l.m.endedProcs[h.from]; h.needs != noRank && !l.known.has(h.needs) && !gone {
			l.held = append(l.held, h)
			continue
		}
		l.m.unkeep(h)
		l.retry(h)
	}
}

// retry looks at a frame that waited.
func (l *sequence) retry(h heldFrame) {
	if err := l.receive(h.from, h.payload); err != nil {
		l.m.emit(Action{Kind: Report, Peer: h.from, Why: err})
	}
}
