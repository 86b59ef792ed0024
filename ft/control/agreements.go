package control

import (
	"log/slog"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/ft/agree"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
)

// Agreements drives a process's agreements over its progress engine. The goroutine that makes
// progress answers frames, even long after the decision here. Its methods are called with the
// engine's lock held.
type Agreements struct {
	e   *progress.Engine
	m   *agree.Machine
	out *Outbox
	in  inbox
	log *slog.Logger // nil: no log

	connectAwaited bool // connect to each member that is waited for
	watching       bool // watcher is registered
	watcher        progress.Watcher
	draining       bool
	stopped        bool
}

// StartAgreements is called once, with the same shape at all processes, before the first frame can
// arrive. Listeners that must learn of an end before an agreement on it is decided are registered
// before.
func StartAgreements(e *progress.Engine, shape agree.Shape, out *Outbox,
	log *slog.Logger) *Agreements {
	a := &Agreements{
		e: e, m: agree.New(e.Self(), shape), out: out, log: log,
		in: inbox{longest: agree.MaxFrame},
	}
	a.watcher = progress.Watcher{Look: a.lookAtBoards, Doze: a.m.Doze}
	e.Handle(fabric.ClassAgree, a.onFrame)
	e.OnEndLater(a.onEnd)
	return a
}

// Open opens a group's agreements; see agree.Machine.
func (a *Agreements) Open(id agree.GroupKey, g agree.Group) error {
	err := a.m.Open(id, g)
	a.drain()
	return err
}

// Close forgets a group; see agree.Machine.
func (a *Agreements) Close(id agree.GroupKey) { a.m.Close(id) }

// Propose lets this process take part in the group's next agreement. p.Then gets the decision with
// the lock held, in this call or in any goroutine that makes progress, and must not keep it. By
// then all members that have been agreed to have failed are in the View.
func (a *Agreements) Propose(id agree.GroupKey, p agree.Proposal) error {
	a.e.FinishEnds()
	_, err := a.m.Propose(id, p)
	a.drain()
	return err
}

// Use enables agreements in shared memory. It is called before the first group is opened.
func (a *Agreements) Use(b agree.Ballots) { a.m.Use(b) }

// ConnectAwaited lets this process connect to each member that an agreement waits for, so that it
// learns of that member's failure without a failure detector. It is called before the first
// proposal.
func (a *Agreements) ConnectAwaited() { a.connectAwaited = true }

func (a *Agreements) onFrame(from proc.ID, imm uint64, payload []byte) {
	if a.stopped {
		return
	}
	frame, ok := a.in.take(from, imm, payload)
	var err error
	switch {
	case a.out.full(from):
		err = errNotReading
	case !ok:
		err = agree.ErrFrame
	case frame != nil:
		err = a.m.Receive(from, frame)
	}
	if err != nil {
		a.cutOff(from, err)
	}
	a.drain()
}

// cutOff reports a peer that sends malformed frames as corrupt.
func (a *Agreements) cutOff(peer proc.ID, why error) {
	if a.log != nil {
		a.log.Info("cut off for its agreement frames", "peer", int(peer), "reason", why)
	}
	a.e.Report(peer, proc.Cause{Kind: proc.Corrupt})
}

func (a *Agreements) onEnd(ep *progress.Endpoint, cause proc.Cause) {
	if a.stopped {
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

// drain performs the machine's actions. Inputs that result from them leave further actions to the
// outermost call.
func (a *Agreements) drain() {
	if a.draining {
		return
	}
	a.draining = true
	for act, ok := a.m.Next(); ok && !a.stopped; act, ok = a.m.Next() {
		switch act.Kind {
		case agree.Send:
			a.out.Send(act.To, fabric.ClassAgree, act.Payload)
		case agree.Report:
			a.report(&act)
		case agree.Await:
			if a.connectAwaited || act.Connect {
				a.out.Connect(act.Peer)
			}
		case agree.Decide:
			act.Then(act.Decision)
			a.m.Release(act.Decision)
		}
	}
	a.draining = false
	a.watch()
}

// watch registers the watcher while this process waits at a ballot.
func (a *Agreements) watch() {
	switch waits := a.m.Waits() && !a.stopped; {
	case waits && !a.watching:
		a.e.Watch(&a.watcher)
		a.e.Kick()
	case !waits && a.watching:
		a.e.Unwatch(&a.watcher)
	case waits:
		a.e.Kick() // the sleeping goroutine does not know this ballot yet
	}
	a.watching = a.m.Waits() && !a.stopped
}

func (a *Agreements) lookAtBoards() (moved int) {
	if moved = a.m.Look(); moved > 0 {
		a.drain()
	}
	return moved
}

// report handles another member's report of an end.
func (a *Agreements) report(act *agree.Action) {
	switch {
	case act.Why != nil:
		a.cutOff(act.Peer, act.Why)
	case !act.Departed:
		a.e.Report(act.Peer, proc.Cause{Kind: proc.Unknown})
	default:
		a.Departed(act.Peer)
	}
}

// Departed handles the report of another process that a peer has departed. A departure is the last
// message of a connection, so where there is a connection, it will report the departure.
func (a *Agreements) Departed(peer proc.ID) {
	if !a.stopped && a.e.Lookup(peer) == nil {
		a.m.Departed(peer)
		a.drain()
	}
}

// Stop ends all agreements, for a process that departs: nothing is answered or decided any more.
func (a *Agreements) Stop() {
	a.stopped = true
	a.watch()
}
