package coll

import (
	"cmp"
	"fmt"

	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/p2p"
)

// Schedule is a collective operation that has been begun and goes on by itself: a list of steps, which any goroutine that makes progress
// carries on when the messages that they wait for have come. It serves one operation after the other, with memory of its own.
//
//	s := coll.NewSchedule(engine)
//	s.Begin(comm, "ibcast", way)
//	s.Bcast(buf, root)
//	h := s.Start()
//
// Several may be under way on one communicator. Their messages have tags of their own, by the number of the operation, so
// they mix neither with each other nor with operations that block.
//
// The first error, unless it is one of lengths, ends it: nothing more is begun, and when all that is under way has ended, which a failure and a revocation see to, so has the
// operation. So no buffer of the caller is touched after that.
type Schedule struct {
	task    *p2p.Task
	e       *p2p.Engine
	promise p2p.Promise
	way     Way
	op      string

	c, w   *p2p.Comm // the user's, and that to send on
	number uint32
	tag    int
	steps  []step
	at     int
	parts  []p2p.Handle
	want   []int // of parts, the length to receive; or sent, or first
	fold   Op
	mem    Memory
	result result
	order  []int // memory for result
	stream streaming
	rise   *rising // nil until there is need, and for most operations
	place  *route  // in the tree that keeps the order of ranks, with root 0; nil until there is need
	state  progression

	err     error
	ended   bool // err does not let it go on
	spoiled bool // a length does not fit: what is passed on is nothing, which fits nobody
	whole   int  // how much of what was received last is a message as it was sent
	decide  func(error)
}

// Way is how a schedule is done.
type Way struct {
	// Unaware: the messages are those of the unaware engine.
	Unaware bool
	// Trees are those that it goes over. They are asked while the operation is put together, and not any more when it has been started.
	Trees *Trees
	// End, if there is one, gives the outcome that the operation has at all ranks, as that of [Setting]: it is called with the lock held and
	// calls back, with the lock held.
	End func(err error, done func(error))
	// Over is called, with the lock held, when the operation has ended and the schedule may serve another one.
	Over func(error)
}

// What want has in place of a length.
const (
	sent  = -1 - iota
	first // of a broadcast
	offer // a child's first message of a reduction
)

// progression is what a schedule does next.
type progression uint8

const (
	stepping progression = iota
	collecting
	concluding
)

type step struct {
	kind stepKind
	peer int
	// to is received into, or folded into, or copied to; from is the other one, or sent.
	to, from []byte
}

type stepKind uint8

const (
	stepRecv      stepKind = iota
	stepRecvFirst          // of a broadcast: it may be a mark
	stepRecvChild          // the first of a reduction: it may be a mark
	stepSend               // nothing if a length did not fit
	stepRelay              // as much as was received last
	stepWait               // for all that has been begun, but for what is kept to be waited for later ([Schedule.now])
	stepFold
	stepSame // folds marks
	stepCopy
	stepAgreed // that a mark stands for what all have
	stepTurn
	stepSegment
	stepTakeIn
	stepClimbOn
)

// result is where the outcome goes when the operation has succeeded.
type result struct {
	to, from []byte
	// blocks is the length of blocks, of all ranks: to has them by the numbers that they have for the user, from in an order, or beginning with that
	// of rank first.
	blocks, first int
	order         []int
}

// NewSchedule makes one.
func NewSchedule(e *p2p.Engine) *Schedule {
	s := &Schedule{e: e}
	s.task = e.NewTask(s.run)
	s.decide = s.decided
	return s
}

// Begin joins the operations of a communicator. Where that is an error the operation ends with it, before it sends anything.
func (s *Schedule) Begin(c *p2p.Comm, op string, way Way) {
	s.c, s.op, s.way = c, op, way
	if c.Local() != nil {
		s.Refuse(cmp.Or(c.Unrevoked(op), fmt.Errorf("%s on %s: %w: not on an intercommunicator", op, c.Name(), ft.ErrArgument)))
		return
	}
	var err error
	if s.w, s.number, err = c.Join(op); err == nil {
		err = way.Trees.ready(c, s.w, op)
	}
	if err != nil {
		s.Refuse(err)
	}
	s.tag = p2p.TagOf(s.number)
}

// Name is a context that belongs to this operation alone, the same at all ranks; false: it has not joined them.
func (s *Schedule) Name() (ctx uint32, joined bool) {
	if s.w == nil {
		return 0, false
	}
	return s.w.OpContext(s.number), true
}

// Refuse has the operation end with an error before it sends anything.
func (s *Schedule) Refuse(err error) {
	s.steps, s.result = s.steps[:0], result{}
	s.err, s.ended = cmp.Or(s.err, err), true
}

// Spoil has the operation end with an error when it has taken part with nothing to give, which fits nobody.
func (s *Schedule) Spoil(err error) { s.err, s.spoiled = cmp.Or(s.err, err), true }

// delegate gives the root's rank in the communicator to send on; false: there is nothing to do.
func (s *Schedule) delegate(root int) (int, bool) {
	if s.ended {
		return 0, false
	}
	at, left, err := s.c.CollRank(s.op, root)
	if err != nil {
		s.Refuse(err)
	}
	s.tag = p2p.WithRoot(s.tag, at)
	return at, err == nil && left
}

// staged reports whether the buffers of the caller are only read until the outcome is agreed on.
func (s *Schedule) staged() bool { return s.way.End != nil }

func (s *Schedule) add(kind stepKind, peer int, to, from []byte) {
	s.steps = append(s.steps, step{kind, peer, to, from})
}

func (s *Schedule) wait() { s.add(stepWait, 0, nil, nil) }

// Start begins what has been put together, and gives the request that it is to the application. Whoever calls it has nothing
// more to do with the schedule.
func (s *Schedule) Start() p2p.Handle {
	for i := range s.steps {
		if s.steps[i].kind > stepRelay {
			continue
		}
		if err := s.w.Connect(s.steps[i].peer); err != nil {
			s.Refuse(&failure{s.op, err})
			break
		}
	}
	var h p2p.Handle
	s.e.Lock()
	s.promise, h = s.e.NewPromise(s.c)
	s.sameRoot()
	s.e.Unlock()
	s.run()
	return h
}

// run goes on for as long as there is nothing to wait for.
func (s *Schedule) run() {
	if s.state == collecting {
		s.e.Lock()
		s.collect()
		s.e.Unlock()
	}
	if s.state == stepping && !s.step() {
		return
	}
	s.conclude()
}

// step takes the steps; false: it waits for messages, and whoever finds them calls run.
func (s *Schedule) step() bool {
	for s.at < len(s.steps) && !s.ended {
		st := &s.steps[s.at]
		s.at++
		switch st.kind {
		case stepRecv:
			s.begun(s.irecv(st.to, st.peer), len(st.to))
		case stepRecvFirst:
			s.begun(s.irecv(st.to, st.peer), first)
		case stepRecvChild:
			s.begun(s.irecv(st.to, st.peer), offer)
		case stepSend:
			if s.spoiled {
				st.from = nil
			}
			s.begun(s.isend(st.from, st.peer), sent)
		case stepRelay:
			s.begun(s.isend(st.from[:min(s.whole, len(st.from))], st.peer), sent)
		case stepWait:
			if !s.await() {
				return false
			}
		default:
			s.work(*st)
		}
	}
	return s.lastly()
}

// work takes a step that neither begins nor waits for anything.
func (s *Schedule) work(st step) {
	switch st.kind {
	case stepFold:
		if !s.spoiled && len(st.to) > 0 { // without operands there may be no operation either
			s.fold(st.to, st.from)
		}
	case stepSame:
		if !s.spoiled {
			sameMark(st.to, st.from)
		}
	case stepCopy:
		copy(st.to, st.from)
	case stepAgreed:
		if !s.spoiled && !shows(st.from, len(st.from)) {
			s.misfit(disagreed(s.w, len(s.result.to)))
		}
		s.ended = s.ended || s.spoiled // all have learnt of it
	case stepTurn:
		s.turn()
	case stepSegment:
		s.segment()
	case stepTakeIn:
		s.takeIn()
	case stepClimbOn:
		s.climbOn()
	}
}

// misfit is an error of lengths: from now on nothing is sent in place of data.
func (s *Schedule) misfit(err error) {
	if s.err == nil {
		s.err = &failure{s.op, err}
	}
	s.spoiled = true
}

func (s *Schedule) irecv(buf []byte, src int) p2p.Handle {
	if s.way.Unaware {
		return p2p.Irecv[p2p.Unaware](s.w, buf, src, s.tag)
	}
	return p2p.Irecv[p2p.Aware](s.w, buf, src, s.tag)
}

func (s *Schedule) isend(buf []byte, dst int) p2p.Handle {
	if s.way.Unaware {
		return p2p.Isend[p2p.Unaware](s.w, buf, dst, s.tag)
	}
	return p2p.Isend[p2p.Aware](s.w, buf, dst, s.tag)
}

func (s *Schedule) begun(h p2p.Handle, want int) {
	if !h.Empty() {
		s.parts, s.want = append(s.parts, h), append(s.want, want)
	}
}

// await reports whether all that has been begun has ended.
func (s *Schedule) await() bool {
	if len(s.parts) == 0 {
		return true
	}
	s.e.Lock()
	defer s.e.Unlock()
	s.state = collecting // whoever goes on may do so as soon as the lock is free
	if !s.task.Await(s.parts) {
		return false
	}
	s.collect()
	return true
}

// collect takes the outcomes of what has ended. Precondition: the lock is held.
func (s *Schedule) collect() {
	for i, h := range s.parts {
		st, err := s.e.Take(h)
		switch want := s.want[i]; {
		case want >= 0:
			s.whole, err = fit(s.w, st, err, want)
		case want == first:
			s.whole, err = s.stream.first(s.w, st, err)
		case want == offer:
			s.whole, err = s.rise.offered(s.w, st, err)
		}
		if err == nil {
			continue
		}
		if s.err == nil {
			s.err = &failure{s.op, err}
		}
		s.spoiled = true
		s.ended = s.ended || fatal(err)
	}
	s.parts, s.want = s.parts[:0], s.want[:0]
	s.state = stepping
}

// conclude gives the operation its outcome: that of this rank, or the one of all.
func (s *Schedule) conclude() {
	if s.way.End != nil && s.state == stepping {
		s.e.Lock()
		s.state = concluding
		s.w.Done(s.number) // others may not come to the agreement before they know
		s.way.End(s.err, s.decide)
		s.e.Unlock() // it may be over
		return
	}
	if s.err == nil {
		s.result.write(s.w)
	}
	s.e.Lock()
	s.over()
	s.e.Unlock()
}

// decided gets the outcome of all ranks. What is to be written then is written without the lock. Precondition: the lock is held.
func (s *Schedule) decided(err error) {
	s.err = err
	s.task.Go()
}

// over tells whoever waits, and lets go of all that was the operation's. Precondition: the lock is held.
func (s *Schedule) over() {
	err, promise, over := s.err, s.promise, s.way.Over
	if s.w != nil {
		s.w.Quit(s.number)
	}
	clear(s.steps)
	s.rise.renew()
	fresh := Schedule{task: s.task, e: s.e, decide: s.decide, steps: s.steps[:0], parts: s.parts[:0], want: s.want[:0], order: s.order[:0], place: s.place,
		stream: s.stream.renewed(err), rise: s.rise}
	if err == nil { // else what it has worked in may still be used by those that count as dead
		fresh.mem = s.mem
	}
	*s = fresh
	promise.Complete(err)
	over(err)
}

// write puts the result into the buffer of the caller.
func (r *result) write(w *p2p.Comm) {
	if r.blocks == 0 {
		copy(r.to, r.from)
		return
	}
	n := w.Size()
	for i := range n {
		rank := (i + r.first) % n
		if r.order != nil {
			rank = r.order[i]
		}
		copy(r.to[w.OriginalRank(rank)*r.blocks:][:r.blocks], r.from[i*r.blocks:])
	}
}
