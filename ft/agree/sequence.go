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
	ballot       openBallot  // the ballot, if any
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
func (s *sequence) begin(seq uint32, old *instance) *instance {
	if old == nil {
		old = new(instance)
	}
	*old = instance{
		s: s, seq: seq, excluded: s.agreed, sent: -1, missing: noRank,
		own: old.own[:0], counted: old.counted[:0], sentTo: old.sentTo[:0], value: old.value[:0],
		up: s.m.reuse(old.up), down: s.m.reuse(old.down),
	}
	return old
}

func (s *sequence) propose(p Proposal) uint32 {
	s.proposed++
	number := s.proposed // a decision may come in between
	if i := s.cur; !i.entered && len(s.queue) == 0 {
		i.own = append(i.own, p.Value...)
		p.Value = i.own
		i.enter(proposal{Proposal: p, number: number})
		return number
	}
	p.Value = slices.Clone(p.Value)
	s.queue = append(s.queue, proposal{Proposal: p, number: number})
	s.enter()
	return number
}

// enter starts the next queued proposal if its agreement can start.
func (s *sequence) enter() {
	if s.cur.entered || len(s.queue) == 0 {
		return
	}
	p := s.queue[0]
	s.queue = slices.Delete(s.queue, 0, 1)
	s.cur.enter(p)
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
	if l.offersBallot() {
		i.gathered.flags |= flagBallot
	}
	for _, rank := range l.known {
		who := l.group.Proc(int(rank))
		if !l.agreed.has(int(rank)) {
			i.gathered.ended = append(i.gathered.ended, entry{rank, l.m.left.has(who), true})
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
		l.tryDecide()
		return
	}
	i.advance()
}

// receive handles a frame of this group.
func (s *sequence) receive(from proc.ID, payload []byte) error {
	if s.m.endedProcs.has(from) && s.m.broken != unfenced {
		return nil
	}
	rank := s.group.Rank(from)
	if rank < 0 {
		return fmt.Errorf("from %v: %w: no member of the group", from, errFrame)
	}
	f := s.frame
	s.frame = frame{} // receive may be called again before it returns
	defer func() {
		if cap(f.ended) > fewEnds {
			f.ended = nil
		}
		s.frame = f
	}()
	if err := f.decode(payload, s.group.Size()); err != nil {
		return fmt.Errorf("from %v: %w", from, err)
	}
	if f.kind == kindWake {
		if s.cur.atBallot {
			s.tryDecide()
		}
		return nil
	}
	if wait, needs := s.mustWait(&f); wait {
		h, err := s.m.keep(from, payload, needs)
		if err == nil {
			s.held = append(s.held, h)
		}
		return err
	}
	return s.dispatch(rank, &f)
}

// fewEnds is the memory for ended members that is kept for the next frame. After the failure of thousands
// a frame names them all, once.
const fewEnds = 64

// noRank stands for no rank.
const noRank = -1

// mustWait reports whether a frame must wait for its agreement or for ends that it names, and
// reports these ends. needs is the last one of them.
func (s *sequence) mustWait(f *frame) (wait bool, needs int) {
	future := int32(f.seq-s.cur.seq) > 0 // numbers wrap around
	needs = noRank
	if s.m.broken == eagerUps && f.kind == kindUp {
		return future, noRank
	}
	for _, e := range f.ended {
		if rank := int(e.rank); rank != s.rank && !s.known.has(rank) {
			needs = rank
			s.m.emit(Action{Kind: Report, Peer: s.group.Proc(rank), Departed: e.departed})
		}
	}
	return future || needs != noRank, needs
}

// dispatch handles a frame. Precondition: mustWait returned false.
func (s *sequence) dispatch(rank int, f *frame) error {
	i := s.cur
	if f.seq != i.seq {
		if i = s.old; i == nil || f.seq != i.seq {
			return nil // a repeated decision that all members have
		}
	}
	if slices.ContainsFunc(f.ended, func(e entry) bool { return int(e.rank) == s.rank }) {
		return nil // this process counts as ended there, and will learn it
	}
	if f.kind == kindDown {
		return s.adopt(i, rank, f)
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
func (s *sequence) await(rank int) {
	if s.awaited.add(rank) {
		s.m.emit(Action{Kind: Await, Peer: s.group.Proc(rank)})
	}
}

// adopt takes over a received decision.
func (s *sequence) adopt(i *instance, rank int, f *frame) error {
	switch {
	case i.decided:
		return nil
	case !i.entered:
		return fmt.Errorf("from rank %d: %w: a decision without this process", rank, errFrame)
	case f.flags&flagMismatch == 0 && !i.alike(f):
		return fmt.Errorf("from rank %d: %w: a decision on something else", rank, errFrame)
	case f.namesBallot() && !s.openBallot(f):
		return fmt.Errorf("from rank %d: %w: a decision that names no ballot", rank, errFrame)
	}
	if i.atBallot {
		s.leaveBallot(i)
	}
	i.sentTo.add(rank)
	i.gathered = *f
	i.gathered.value = i.keepValue(f.value)
	i.gathered.ended, i.gathered.unacked = slices.Clone(f.ended), slices.Clone(f.unacked)
	i.finish()
	return nil
}

// decided ends an agreement in this process and starts the next.
func (s *sequence) decided(i *instance) {
	if len(i.gathered.ended) > 0 {
		base := slices.Clone(s.agreed)
		for _, e := range i.gathered.ended {
			base.add(int(e.rank))
			if e.departed {
				s.departed.add(int(e.rank))
			}
		}
		s.agreed = base
	}
	s.old, s.cur = i, s.begin(i.seq+1, s.old)
	if s.ballot.Ballot != nil && (len(i.gathered.ended) > 0 || i.gathered.namesBallot()) {
		s.findVoters()
		for _, rank := range s.ballot.near { // neighbours that may have to wake this process
			s.await(rank)
		}
	}
	if i.yielded() {
		again := i.mine
		again.Value = slices.Clone(again.Value)
		s.queue = slices.Insert(s.queue, 0, again)
		s.carried = unite(s.carried, i.gathered.ended)
		s.enter()
		s.retryHeld()
		return
	}
	d := s.decision(i)
	switch first := s.result; {
	case i.mine.confirm:
		// Members that fail in the second round may not learn what only that round found.
		s.result, s.carried = nil, i.gathered.ended
		s.m.emit(Action{Kind: Decide, Decision: first, Then: i.mine.Then})
	case i.mine.Uniform && !d.Mismatch && i.gathered.flags&flagBinds == 0:
		s.result = d
		second := i.mine
		second.confirm, second.Value, second.Op = true, nil, nil
		s.queue = slices.Insert(s.queue, 0, second)
	default:
		s.m.emit(Action{Kind: Decide, Decision: d, Then: i.mine.Then})
	}
	s.enter()
	s.retryHeld()
}

// decision is the decision that the caller gets.
func (s *sequence) decision(i *instance) *Decision {
	d := s.spare
	if s.spare = nil; d == nil {
		d = new(Decision)
	}
	*d = Decision{
		Key: s.key, Seq: i.mine.number, Number: i.seq, What: i.gathered.what,
		Value:    append(d.Value[:0], i.gathered.value...),
		Mismatch: i.gathered.flags&flagMismatch != 0,
		Refused:  i.gathered.flags&flagRefused != 0,
	}
	if len(s.endedList) != len(s.agreed) {
		s.endedList = make([]Ended, 0, len(s.agreed))
		for _, rank := range s.agreed {
			// This process's own knowledge may differ from the other members'.
			who := s.group.Proc(int(rank))
			s.endedList = append(s.endedList, Ended{who, s.departed.has(int(rank))})
		}
	}
	d.Ended = slices.Clip(s.endedList)
	if len(s.carried)+len(i.gathered.ended) > 0 {
		for _, e := range unite(s.carried, i.gathered.ended) {
			d.New = append(d.New, Ended{s.group.Proc(int(e.rank)), e.departed})
		}
		s.carried = nil
	}
	for _, rank := range i.gathered.unacked {
		d.Unacked = append(d.Unacked, s.group.Proc(int(rank)))
	}
	return d
}

// retryHeld handles the frames that waited.
func (s *sequence) retryHeld() {
	waiting := s.held
	s.held = nil
	for _, h := range waiting {
		if h.needs != noRank && !s.known.has(h.needs) && !s.m.endedProcs.has(h.from) {
			s.held = append(s.held, h)
			continue
		}
		s.m.unkeep(h)
		s.retry(h)
	}
}

// retry handles a frame that waited.
func (s *sequence) retry(h heldFrame) {
	if err := s.receive(h.from, h.payload); err != nil {
		s.m.emit(Action{Kind: Report, Peer: h.from, Why: err})
	}
}
