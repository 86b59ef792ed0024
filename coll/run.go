package coll

import (
	"cmp"
	"errors"

	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/p2p"
)

// run runs a blocking operation and gives its outcome. The memory of one that has failed is not used
// again: a process that only counts as dead may still write to it.
func (s *Schedule) run() error {
	s.advance()
	return s.end()
}

// end gives the outcome of a blocking operation.
func (s *Schedule) end() error {
	if !s.tried {
		s.e.Lock()
		s.c.CountCollective()
		s.e.Unlock()
	}
	err := s.err
	if s.broken {
		s.w.GiveUp()
	}
	if s.staged() && !errors.Is(err, ft.ErrClosed) { // on a communicator that was freed nothing is agreed
		err = s.o.Agreement.Outcome(s.c, s.kind, cmp.Or(s.call.Wrong, err))
	}
	if err != nil {
		return s.failure(err)
	}
	s.result.write()
	s.reset()
	s.o.idleBlocking.Store(s)
	return nil
}

// progression is the next thing that a non-blocking operation does.
type progression uint8

const (
	stepping progression = iota
	collecting
	finishing
)

// start starts a non-blocking operation and gives the request of the application. The caller does not
// touch the schedule afterwards.
func (s *Schedule) start() p2p.Handle {
	for i := range s.steps {
		if s.steps[i].kind > stepExchange {
			continue
		}
		// Connecting may wait, which a step may not.
		err := s.w.Connect(int(s.steps[i].peer))
		if s.steps[i].kind == stepExchange {
			err = cmp.Or(err, s.w.Connect(int(s.steps[i].src)))
		}
		if err != nil {
			s.refuse(err)
			break
		}
	}
	if s.task == nil {
		s.task, s.decide = s.e.NewTask(s.resume), s.decided
	}
	var h p2p.Handle
	e, check := s.e, s.call.Check
	s.e.Lock()
	s.promise, h = s.e.NewPromise(s.c, s.kind.Name(false))
	if s.w != nil && !s.ended { // another rank may have named another root
		if err := s.w.RootMismatch(s.tag); err != nil {
			s.fail(err)
		}
	}
	s.e.Unlock()
	s.resume()
	return check.Follow(e, h)
}

// resume runs a non-blocking operation until it waits for messages.
func (s *Schedule) resume() {
	if s.state == collecting {
		s.e.Lock()
		s.collect()
		s.e.Unlock()
	}
	if s.state == stepping && !s.advance() {
		return
	}
	s.finish()
}

// advance runs steps; false: the operation waits for messages, and continues in resume.
func (s *Schedule) advance() bool {
	for s.at < len(s.steps) && !s.ended {
		st := &s.steps[s.at]
		s.at++
		switch st.kind {
		case stepRecv:
			s.recv(st.to, int(st.peer), len(st.to))
		case stepRecvFirst:
			s.recv(st.to, int(st.peer), first)
		case stepRecvChild:
			s.recv(st.to, int(st.peer), offer)
		case stepSend:
			s.send(s.data(st.from), int(st.peer))
		case stepRelay:
			s.send(st.from[:min(s.got, len(st.from))], int(st.peer))
		case stepIrecv:
			s.pend(s.irecv(st.to, int(st.peer)), len(st.to))
		case stepExchange:
			s.swap(st)
		case stepReach:
		case stepWait:
			if !s.await() {
				return false
			}
		default:
			s.work(*st)
		}
	}
	if !s.awaitRest() {
		return false
	}
	return s.handOver()
}

// handOver waits until the sent messages have left this process, so that a rank that dies after its
// success has sent all messages that the others need. Usually the sockets have accepted everything, and
// it does not wait.
func (s *Schedule) handOver() bool {
	if s.e.EndBursts() || s.ended || s.w == nil {
		return true
	}
	for _, st := range s.steps {
		switch st.kind {
		case stepSend, stepRelay, stepExchange:
			s.pend(s.w.HandOver(int(st.peer)), sent)
		}
	}
	if s.stream != nil && s.stream.passed > 0 { // other segments go to ranks that steps have sent to
		for _, child := range s.stream.children {
			s.pend(s.w.HandOver(child), sent)
		}
	}
	return s.await()
}

// data returns buf, or nothing if a length did not fit.
func (s *Schedule) data(buf []byte) []byte {
	if s.spoiled {
		return nil
	}
	return buf
}

// work runs a step that has nothing to do with messages, or that puts others in place.
func (s *Schedule) work(st step) {
	switch st.kind {
	case stepFold:
		if !s.spoiled && len(st.to) > 0 { // without operands there may be no operation either
			s.fold(st.to, st.from)
		}
	case stepSame:
		if !s.spoiled {
			sameHeader(st.to, st.from)
		}
	case stepCopy:
		copy(st.to, st.from)
	case stepSort:
		arrange(st.to, st.from, s.sorted, len(st.to)/len(s.sorted))
	case stepAgreed:
		if !s.spoiled && !isHeader(st.from, len(st.from)) {
			s.fail(disagreed(len(st.to)))
		}
		s.ended = s.ended || s.spoiled // all ranks have learned of it
	case stepTurn:
		s.turn()
	case stepSegment:
		s.segment()
	case stepTakeIn:
		s.takeIn()
	case stepClimbOn:
		s.climbOn()
	default:
		s.onNode(st)
	}
}

// recv receives a message, or starts to if the operation does not block.
func (s *Schedule) recv(buf []byte, src, want int) {
	if !s.blocks {
		s.pend(s.irecv(buf, src), want)
		return
	}
	var st p2p.Status
	var err error
	if s.unaware {
		st, err = p2p.Recv[p2p.Unaware](s.w, buf, src, s.tag)
	} else {
		st, err = p2p.Recv[p2p.Aware](s.w, buf, src, s.tag)
	}
	s.settle(st, err, want)
}

// send starts to send a message, for which the next stepWait waits: long ones to several ranks leave together, and
// one to a rank that has failed keeps nothing from the others.
func (s *Schedule) send(buf []byte, dst int) { s.pend(s.isend(buf, dst), sent) }

// swap sends to one rank and receives from another at once.
func (s *Schedule) swap(x *step) {
	out, in, dst, src := s.data(x.from), x.to, int(x.peer), int(x.src)
	if !s.blocks {
		s.pend(s.irecv(in, src), len(in))
		s.pend(s.isend(out, dst), sent)
		return
	}
	var st p2p.Status
	var err error
	if s.unaware {
		st, err = p2p.Exchange[p2p.Unaware](s.w, out, dst, in, src, s.tag)
	} else {
		st, err = p2p.Exchange[p2p.Aware](s.w, out, dst, in, src, s.tag)
	}
	s.settle(st, err, len(in))
}

func (s *Schedule) irecv(buf []byte, src int) p2p.Handle {
	if s.unaware {
		return p2p.Irecv[p2p.Unaware](s.w, buf, src, s.tag)
	}
	return p2p.Irecv[p2p.Aware](s.w, buf, src, s.tag)
}

func (s *Schedule) isend(buf []byte, dst int) p2p.Handle {
	switch inward := s.kind.inward(); {
	case inward && s.unaware:
		return p2p.IsendAhead[p2p.Unaware](s.w, buf, dst, s.tag)
	case inward:
		return p2p.IsendAhead[p2p.Aware](s.w, buf, dst, s.tag)
	case s.unaware:
		return p2p.Isend[p2p.Unaware](s.w, buf, dst, s.tag)
	}
	return p2p.Isend[p2p.Aware](s.w, buf, dst, s.tag)
}

// pend has the next stepWait wait for a message.
func (s *Schedule) pend(h p2p.Handle, want int) {
	if !h.Empty() {
		s.parts, s.want = append(s.parts, h), append(s.want, want)
	}
}

// now is pend for a message that was kept to be waited for later.
func (s *Schedule) now(h *p2p.Handle, want int) {
	s.pend(*h, want)
	*h = p2p.Handle{}
}

// await reports whether all messages of parts have ended, for which a blocking operation waits.
func (s *Schedule) await() bool {
	if len(s.parts) == 0 {
		return true
	}
	s.e.Lock()
	defer s.e.Unlock()
	if !s.blocks {
		s.state = collecting // resume may run as soon as the lock is free
		if !s.task.Await(s.parts) {
			return false
		}
	}
	s.collect()
	return true
}

// awaitRest waits for the messages that no step has waited for.
func (s *Schedule) awaitRest() bool {
	if s.ascent != nil {
		for i := range s.ascent.coming {
			s.now(&s.ascent.coming[i], sent)
		}
		s.now(&s.ascent.up, sent)
	}
	if s.stream != nil {
		s.awaitStream()
	}
	return s.await()
}

// collect takes the outcomes of parts. Precondition: the lock is held.
func (s *Schedule) collect() {
	for i, h := range s.parts {
		st, err := s.e.Take(h)
		s.settle(st, err, s.want[i])
	}
	s.parts, s.want = s.parts[:0], s.want[:0]
	s.state = stepping
}

// settle takes the outcome of one message.
func (s *Schedule) settle(st p2p.Status, err error, want int) {
	switch {
	case want >= 0:
		s.got, err = fit(s.w, st, err, want)
	case want == first:
		s.got, err = s.stream.first(s.w, st, err)
	case want == offer:
		s.got, err = s.ascent.offered(s.w, st, err)
	}
	if err != nil {
		s.fail(err)
	}
}

// finish gives a non-blocking operation its outcome: that of this rank, or that of all.
func (s *Schedule) finish() {
	if s.staged() && s.state == stepping {
		s.e.Lock()
		defer s.e.Unlock() // the operation may be over before that
		s.state = finishing
		err := cmp.Or(s.call.Wrong, s.err)
		if s.w == nil || errors.Is(s.err, ft.ErrClosed) {
			s.decided(err)
			return
		}
		s.w.Done(s.number) // other ranks may need this before they enter the agreement
		s.o.Agreement.Begin(s.c, s.kind, s.w.OpContext(s.number), err, s.decide)
		return
	}
	if s.err == nil {
		s.result.write()
	}
	s.e.Lock()
	s.over()
	s.e.Unlock()
}

// decided gets the outcome of all ranks. The result is then written without the lock.
// Precondition: the lock is held.
func (s *Schedule) decided(err error) {
	s.err = err
	s.task.Go()
}

// over completes the request of a non-blocking operation. As for blocking ones, the memory of an
// operation that has failed is not used again. Precondition: the lock is held.
func (s *Schedule) over() {
	if s.w != nil {
		s.w.Quit(s.number)
	}
	err, promise := s.err, s.promise
	if err == nil {
		s.reset()
		s.state, s.promise = stepping, p2p.Promise{}
		s.next, s.o.idle = s.o.idle, s
	} else {
		err = s.failure(err)
	}
	promise.Complete(err)
}
