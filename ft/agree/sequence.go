package agree

import (
	"fmt"
	"slices"

	"github.com/banyan-hpc/banyan/internal/proc"
)

// sequence is the sequence of agreements of one group; one runs at a time.
type sequence struct {
	m        *Machine
	key      GroupKey
	group    Group
	rank     int
	known    ranks // members known to have ended
	agreed   ranks // of those, the ones agreed to have ended
	departed ranks // of agreed, the ones agreed to have departed
	// endedList is agreed as decisions list it; they share it.
	endedList []Ended
	// awaited are the members of an Await action.
	awaited ranks
	// cur is the agreement that runs or starts next; old the one before, decided.
	cur, old     *instance
	queue        []proposal  // proposals of later agreements
	proposed     uint32      // number of calls of Propose
	folded       []byte      // memory of fold
	spare        *Decision   // memory for the next one, or nil
	result       *Decision   // of the first round of a uniform proposal whose second round runs
	carried      []entry     // agreed to have ended in a second round: new in the next decision
	held         []heldFrame // frames that wait for an end to be known, or for a later agreement
	below        []int       // memory of children
	flat         flat        // the ballot, if any
	connectAsked proc.ID     // 1 + the root that a connection has been requested to; 0: none
	frame        frame       // memory of the next received frame
}

// proposal is a Proposal with its number, or the second round of one.
type proposal struct {
	Proposal
	number  uint32
	confirm bool
}

// begin returns the next agreement. It reuses the record of the one before the last, with its
// memory.
func (l *sequence) begin(seq uint32, old *instance) *instance {
	if old == nil {
		old = new(instance)
	}
	*old = instance{
		s: l, seq: seq, excluded: l.agreed, sent: -1, missing: noRank,
		own: old.own[:0], counted: old.counted[:0], sentTo: old.sentTo[:0], value: old.value[:0],
		up: l.m.reuse(old.up), down: l.m.reuse(old.down),
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

// enter starts the next queued proposal if its agreement can start.
func (l *sequence) enter() {
	if l.cur.entered || len(l.queue) == 0 {
		return
	}
	p := l.queue[0]
	l.queue = slices.Delete(l.queue, 0, 1)
	l.cur.enter(p)
}

// enter takes part with a proposal.
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

// receive handles a frame of this group.
func (l *sequence) receive(from proc.ID, payload []byte) error {
	if _, ended := l.m.endedProcs[from]; ended && l.m.broken != unfenced {
		return nil
	}
	rank := l.group.Rank(from)
	if rank < 0 {
		return fmt.Errorf("from %v: %w: no member of the group", from, errFrame)
	}
	f := l.frame
	l.frame = frame{} // receive may be called again before it returns
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

// mustWait reports whether a frame must wait for its agreement or for ends that it names, and
// reports these ends. needs is the last one of them.
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

// dispatch handles a frame. Precondition: mustWait returned false.
func (l *sequence) dispatch(rank int, f *frame) error {
	i := l.cur
	if f.seq != i.seq {
		if i = l.old; i == nil || f.seq != i.seq {
			return nil // a repeated decision that all members have
		}
	}
	if slices.ContainsFunc(f.ended, func(e entry) bool { return int(e.rank) == l.rank }) {
		return nil // this process counts as ended there, and will learn it
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

// await reports that this process waits for a member, to which it may have no connection.
func (l *sequence) await(rank int) {
	if l.awaited.add(rank) {
		l.m.emit(Action{Kind: Await, Peer: l.group.Proc(rank)})
	}
}

// adopt takes over a received decision.
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
	i.gathered.value = i.keepValue(f.value)
	i.gathered.ended, i.gathered.unacked = slices.Clone(f.ended), slices.Clone(f.unacked)
	i.finish()
	return nil
}

// decided ends an agreement in this process and starts the next.
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
		for _, rank := range l.flat.near { // neighbours that may have to wake this process
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
		// Members that fail in the second round may not learn what only that round found.
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

// decision is the decision that the caller gets.
func (l *sequence) decision(i *instance) *Decision {
	d := l.spare
	if l.spare = nil; d == nil {
		d = new(Decision)
	}
	*d = Decision{
		Key: l.key, Seq: i.mine.number, Number: i.seq, What: i.gathered.what,
		Value:    append(d.Value[:0], i.gathered.value...),
		Mismatch: i.gathered.flags&flagMismatch != 0,
		Refused:  i.gathered.flags&flagRefused != 0,
	}
	if len(l.endedList) != len(l.agreed) {
		l.endedList = make([]Ended, 0, len(l.agreed))
		for _, rank := range l.agreed {
			// This process's own knowledge may differ from the other members'.
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

// retryHeld handles the frames that waited.
func (l *sequence) retryHeld() {
	waiting := l.held
	l.held = nil
	for _, h := range waiting {
		if _, ended := l.m.endedProcs[h.from]; h.needs != noRank && !l.known.has(h.needs) && !ended {
			l.held = append(l.held, h)
			continue
		}
		l.m.unkeep(h)
		l.retry(h)
	}
}

// retry handles a frame that waited.
func (l *sequence) retry(h heldFrame) {
	if err := l.receive(h.from, h.payload); err != nil {
		l.m.emit(Action{Kind: Report, Peer: h.from, Why: err})
	}
}
