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
	frame        *frame      // memory of the next received frame, or nil
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
	memory := old.memory
	*old = instance{}
	old.s, old.seq, old.excluded, old.sent, old.missing = s, seq, s.agreed, -1, noRank
	old.memory.reuse(&memory, s.m)
	return old
}

func (s *sequence) propose(p *Proposal) uint32 {
	s.proposed++
	number := s.proposed // a decision may come in between
	if i := s.cur; !i.entered && len(s.queue) == 0 {
		i.own = append(i.own, p.Value...)
		p.Value = i.own
		i.mine = proposal{Proposal: *p, number: number}
		i.enter()
		return number
	}
	p.Value = slices.Clone(p.Value)
	s.queue = append(s.queue, proposal{Proposal: *p, number: number})
	s.enter()
	return number
}

// enter starts the next queued proposal if its agreement can start.
func (s *sequence) enter() {
	if s.cur.entered || len(s.queue) == 0 {
		return
	}
	s.cur.mine = s.queue[0]
	s.queue = slices.Delete(s.queue, 0, 1)
	s.cur.enter()
}

// enter takes part with the proposal mine.
func (i *instance) enter() {
	l, p := i.s, &i.mine
	i.entered = true
	i.gathered.what, i.gathered.key, i.gathered.seq = p.What, l.key, i.seq
	i.gathered.value = i.keepValue(p.Value)
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
	if len(l.known) > 0 {
		i.nameEnded()
	}
	i.counted = i.counted[:0]
	for k := range i.pending {
		i.count(i.pending[k].rank, &i.pending[k].frame)
	}
	i.pending = nil
	if l.post(i) {
		l.tryDecide()
		return
	}
	i.advance()
}

// nameEnded puts the members that this process knows to have ended into its contribution.
func (i *instance) nameEnded() {
	l, p := i.s, &i.mine
	for _, rank := range l.known {
		who := l.group.Proc(int(rank))
		if !l.agreed.has(int(rank)) {
			i.gathered.ended = append(i.gathered.ended, entry{rank, l.m.left.has(who), true})
		}
		if p.Acked != nil && !p.Acked(who) {
			i.gathered.unacked = append(i.gathered.unacked, rank)
		}
	}
}

// receive handles a frame of this group.
func (s *sequence) receive(from proc.ID, payload []byte) error {
	if s.m.endedProcs.has(from) && s.m.broken != unfenced {
		return nil
	}
	rank := s.group.Rank(from)
	if rank < 0 {
		return fromError(from, errNoMember)
	}
	f := s.frame
	s.frame = nil // receive may be called again before it returns
	if f == nil {
		f = new(frame)
	}
	err := s.handle(from, rank, f, payload)
	if cap(f.ended) > fewEnds {
		f.ended = nil
	}
	if cap(f.unacked) > fewEnds {
		f.unacked = nil
	}
	s.frame = f
	return err
}

// handle decodes a frame into f and handles it.
func (s *sequence) handle(from proc.ID, rank int, f *frame, payload []byte) error {
	if err := f.decode(payload, s.group.Size()); err != nil {
		return fromError(from, err)
	}
	if f.kind == kindWake {
		if s.cur.atBallot {
			s.tryDecide()
		}
		return nil
	}
	if wait, needs := s.mustWait(f); wait {
		return s.hold(from, payload, needs)
	}
	return s.dispatch(rank, f)
}

// hold keeps a frame that must wait.
func (s *sequence) hold(from proc.ID, payload []byte, needs int) error {
	h, err := s.m.keep(from, payload, needs)
	if err == nil {
		s.held = append(s.held, h)
	}
	return err
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
			a := s.m.emit(Report)
			a.Peer, a.Departed = s.group.Proc(rank), e.departed
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
		i.keepEarly(rank, f)
	default:
		i.count(rank, f)
		i.advance()
	}
	return nil
}

// keepEarly keeps a contribution that came before this process's own, the first of each member.
func (i *instance) keepEarly(rank int, f *frame) {
	if !i.counted.add(rank) {
		return
	}
	i.pending = append(i.pending, pendingUp{rank: rank, frame: *f})
	early := &i.pending[len(i.pending)-1].frame
	early.value, early.ended, early.unacked = slices.Clone(f.value), slices.Clone(f.ended), slices.Clone(f.unacked)
}

// await reports that this process waits for a member, to which it may have no connection.
func (s *sequence) await(rank int) {
	if s.awaited.add(rank) {
		s.m.emit(Await).Peer = s.group.Proc(rank)
	}
}

// adopt takes over a received decision.
func (s *sequence) adopt(i *instance, rank int, f *frame) error {
	switch {
	case i.decided:
		return nil
	case !i.entered:
		return rankError(rank, "a decision without this process")
	case f.flags&flagMismatch == 0 && !i.alike(f):
		return rankError(rank, "a decision on something else")
	case f.namesBallot() && !s.openBallot(f):
		return rankError(rank, "a decision that names no ballot")
	}
	if i.atBallot {
		s.leaveBallot(i)
	}
	i.sentTo.add(rank)
	i.takeOver(f)
	i.finish()
	return nil
}

//go:noinline
func rankError(rank int, what string) error {
	return fmt.Errorf("from rank %d: %w: %s", rank, errFrame, what)
}

// takeOver makes a decision that of this process.
func (i *instance) takeOver(f *frame) {
	i.gathered = *f
	i.gathered.value = i.keepValue(f.value)
	i.gathered.ended, i.gathered.unacked = slices.Clone(f.ended), slices.Clone(f.unacked)
}

// decided ends an agreement in this process and starts the next.
func (s *sequence) decided(i *instance) {
	if len(i.gathered.ended) > 0 {
		s.agreeEnded(i.gathered.ended)
	}
	s.old, s.cur = i, s.begin(i.seq+1, s.old)
	if s.ballot.Ballot != nil && (len(i.gathered.ended) > 0 || i.gathered.namesBallot()) {
		s.renewVoters()
	}
	if i.yielded() {
		s.queueFirst(&i.mine).Value = slices.Clone(i.mine.Value)
		s.carried = unite(s.carried, i.gathered.ended)
	} else {
		s.deliver(i)
	}
	if len(i.gathered.ended) > fewEnds {
		i.compact()
	}
	s.enter()
	s.retryHeld()
}

// renewVoters finds the voters after a decision that has changed them.
func (s *sequence) renewVoters() {
	s.findVoters()
	for _, rank := range s.ballot.near { // neighbours that may have to wake this process
		s.await(rank)
	}
}

// agreeEnded enters the members that a decision names.
func (s *sequence) agreeEnded(ended []entry) {
	base := slices.Clone(s.agreed)
	for _, e := range ended {
		base.add(int(e.rank))
		if e.departed {
			s.departed.add(int(e.rank))
		}
	}
	if s.agreed = base; len(base) == len(s.known) {
		s.known = slices.Clip(base) // both have all agreed members: the next addition copies
	}
}

// deliver delivers the decision on this process's proposal, or lets its second round follow.
func (s *sequence) deliver(i *instance) {
	d := s.decision(i)
	switch first := s.result; {
	case i.mine.confirm:
		// Members that fail in the second round may miss ends that only that round found.
		s.result, s.carried, d = nil, i.gathered.ended, first
	case i.mine.Uniform && !d.Mismatch && i.gathered.flags&flagBinds == 0:
		s.result = d
		second := s.queueFirst(&i.mine)
		second.confirm, second.Value, second.Op = true, nil, nil
		return
	}
	a := s.m.emit(Decide)
	a.Decision, a.Then = d, i.mine.Then
}

// queueFirst puts a copy of a proposal before the others, and returns it.
//
//go:noinline
func (s *sequence) queueFirst(p *proposal) *proposal {
	s.queue = slices.Insert(s.queue, 0, *p)
	return &s.queue[0]
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
		a := s.m.emit(Report)
		a.Peer, a.Why = h.from, err
	}
}
