package control

import (
	"fmt"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/ft/agree"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
)

// Agreements takes part in agreements over a process's progress engine: frames are
// answered by whoever makes progress, also when the agreement has long been decided
// here. Its methods are called with the engine's lock held.
type Agreements struct {
	e    *progress.Engine
	m    *agree.Machine
	out  *Outbox
	in   inbox
	logf func(format string, args ...any)

	meet     bool // who is waited for
	watching bool // boards
	watcher  progress.Watcher
	draining bool
	over     bool
}

// StartAgreements is called once, with the same shape at all processes, before the first frame can arrive, and after the
// listeners to ends have been registered that are to be told of a death before an agreement on it
// is decided.
func StartAgreements(e *progress.Engine, shape agree.Shape, out *Outbox, logf func(format string, args ...any)) *Agreements {
	a := &Agreements{
		e: e, m: agree.New(e.Self(), shape), out: out, logf: logf,
		in: inbox{most: agree.MaxFrame},
	}
	a.watcher = progress.Watcher{Look: a.lookAtBoards, Doze: a.m.Doze}
	e.Handle(fabric.ClassAgree, a.heard)
	e.OnEnd(a.ended)
	return a
}

// Open begins a line of agreements; see agree.Machine.
func (a *Agreements) Open(id agree.Line, g agree.Group) error {
	err := a.m.Open(id, g)
	a.drain()
	return err
}

// Close forgets a line; see agree.Machine.
func (a *Agreements) Close(id agree.Line) { a.m.Close(id) }

// Propose has this process take part in the line's next agreement. p.Then gets the decision, until it returns,
// with the lock held, in this call or in whatever goroutine makes progress; all members that are agreed to have failed stand in
// the View by then.
func (a *Agreements) Propose(id agree.Line, p agree.Proposal) error {
	_, err := a.m.Propose(id, p)
	a.drain()
	return err
}

// Use has agreements be made on boards where that is possible. It is called before the first line is opened.
func (a *Agreements) Use(b agree.Boards) { a.m.Use(b) }

// Meet has this process connect to whom an agreement waits for, so that it learns of the
// other's death also where no failure detector tells. It is called before the first proposal.
func (a *Agreements) Meet() { a.meet = true }

func (a *Agreements) heard(from proc.ID, imm uint64, payload []byte) {
	if a.over {
		return
	}
	frame, ok := a.in.take(from, imm, payload)
	var err error
	switch {
	case a.out.waiting(from) > maxWaiting:
		err = errAnswers
	case !ok:
		err = agree.ErrFrame
	case frame != nil:
		err = a.m.Heard(from, frame)
	}
	if err != nil {
		a.cut(from, err)
	}
	a.drain()
}

// maxWaiting bounds the frames that wait for a peer which sends frames itself: it does not take the answers
// to those. A peer that is only slow is waited for.
const maxWaiting = 1 << 14

var errAnswers = fmt.Errorf("it sends frames, and does not take %d that wait for it", maxWaiting)

// cut ends the connection to a peer that sends what it must not.
func (a *Agreements) cut(peer proc.ID, why error) {
	if a.logf != nil {
		a.logf("agree: cutting %v off: %v", peer, why)
	}
	a.e.Report(peer, proc.Cause{Kind: proc.Corrupt})
}

func (a *Agreements) ended(ep *progress.Endpoint, cause proc.Cause) {
	if a.over {
		return
	}
	delete(a.in.parts, ep.Proc)
	if cause.Failed() {
		a.m.Died(ep.Proc)
	} else {
		a.m.Departed(ep.Proc)
	}
	a.drain()
}

// drain does what the machine asks for. What comes of that as inputs leaves the rest to the
// first call.
func (a *Agreements) drain() {
	if a.draining {
		return
	}
	a.draining = true
	for act, ok := a.m.Next(); ok && !a.over; act, ok = a.m.Next() {
		switch act.Kind {
		case agree.Send:
			a.out.Send(act.To, fabric.ClassAgree, act.Payload)
		case agree.Report:
			a.report(&act)
		case agree.Await:
			if a.meet || act.Meet {
				a.out.Meet(act.Peer)
			}
		case agree.Decide:
			act.Then(act.Decision)
			a.m.Release(act.Decision)
		}
	}
	a.draining = false
	a.watch()
}

// watch has the boards be looked at while this process waits at some.
func (a *Agreements) watch() {
	switch waits := a.m.Waits() && !a.over; {
	case waits && !a.watching:
		a.e.Watch(&a.watcher)
		a.e.Kick()
	case !waits && a.watching:
		a.e.Unwatch(&a.watcher)
	case waits:
		a.e.Kick() // there may be another one since who sleeps has dozed
	}
	a.watching = a.m.Waits() && !a.over
}

func (a *Agreements) lookAtBoards() (moved int) {
	if moved = a.m.Look(); moved > 0 {
		a.drain()
	}
	return moved
}

// report takes word of an end from another member. A departure is the last thing that one hears over a
// connection, so where there is one it will tell.
func (a *Agreements) report(act *agree.Action) {
	switch {
	case act.Why != nil:
		a.cut(act.Peer, act.Why)
	case !act.Departed:
		a.e.Report(act.Peer, proc.Cause{Kind: proc.Unknown})
	case a.e.Lookup(act.Peer) == nil:
		a.m.Departed(act.Peer)
	}
}

// Stop has nothing be answered or decided any more, for a process that departs.
func (a *Agreements) Stop() {
	a.over = true
	a.watch()
}
