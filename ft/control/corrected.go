package control

import (
	"log/slog"
	"slices"

	"github.com/banyan-hpc/banyan/coll/corrected"
	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/ft/agree"
	"github.com/banyan-hpc/banyan/internal/few"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
)

// Corrected drives a process's corrected collectives (package coll/corrected) over its progress engine. The
// goroutine that makes progress answers frames, also those about operations that have returned here, or have not been
// called. Its methods are called with the engine's lock held.
type Corrected struct {
	e     *progress.Engine
	out   *Outbox
	in    inbox
	comms Comms
	log   *slog.Logger // nil: no log

	open    few.Map[uint32, *correctedComm] // by context
	order   []*correctedComm                // the same, in the order of their first calls or frames
	dropped []uint32                        // contexts of which nothing is kept, the oldest first
	early   few.Map[uint32, []earlyFrame]   // for communicators that are not known here
	bytes   map[proc.ID]int                 // of early frames, by sender
	ended   ft.Set                          // processes that have failed or departed

	connectAwaited bool
	stopped        bool
}

// Comms is the access of Corrected to the communicators of this process.
type Comms struct {
	// Members gives the members of the communicator with a context, or nil.
	Members func(context uint32) agree.Group
	// GaveUp reports whether this process calls no more collectives there.
	GaveUp func(context uint32) bool
}

// Caller is the caller of an operation. Its methods are called with the lock held, one of them once: in the call or
// in any goroutine that makes progress.
type Caller interface {
	// Done gets the outcome, 0 if the communicator has been abandoned. The value is borrowed.
	Done(outcome corrected.Outcome, value []byte)
	// GaveUp reports that a rank, for which the operation waits, calls no more collectives.
	GaveUp(rank proc.ID)
}

// correctedComm is the part in one communicator.
type correctedComm struct {
	context  uint32
	group    agree.Group
	m        *corrected.Machine
	calls    []correctedCall // under way, in order
	turns    []func()        // operations whose parts have not all been called, in order; the first has started
	asked    []corrected.Action
	failed   bool // a member has
	draining bool
	closing  bool // freed: nothing more is called
}

type correctedCall struct {
	number uint32
	caller Caller
}

// earlyFrame is a frame for a communicator that is not known here.
type earlyFrame struct {
	from    proc.ID
	payload []byte
}

const (
	// correctionDelay is the time after which a correction continues with the next distance, in ns. It is longer
	// than a broadcast among some hundred ranks, and shorter than most detections.
	correctionDelay = fabric.Time(200_000)
	// longestDelay bounds the doublings of it.
	longestDelay = 8
	// earlyMax bounds the early frames of a peer, in bytes with earlyHead for each: a rank is at most two periods ahead of
	// another one.
	earlyMax  = 4 * corrected.Period * corrected.MaxFrame
	earlyHead = 64
	// closedMax bounds the freed communicators of which the last barrier is kept, besides those with operations under
	// way, and the contexts of others.
	closedMax = 1024
)

// StartCorrected is called once, before the first frame can arrive.
func StartCorrected(e *progress.Engine, out *Outbox, comms Comms, log *slog.Logger) *Corrected {
	c := &Corrected{e: e, out: out, comms: comms, log: log, in: inbox{longest: corrected.MaxFrame}}
	e.Handle(fabric.ClassCorrected, c.onFrame)
	e.OnEndLater(c.onEnd)
	return c
}

// ConnectAwaited is that of Agreements.
func (c *Corrected) ConnectAwaited() { c.connectAwaited = true }

// Enter calls start when all operations that have entered before have left: each calls its parts between the two.
func (c *Corrected) Enter(context uint32, g agree.Group, start func()) {
	k := c.comm(context, g)
	if k.turns = append(k.turns, start); len(k.turns) == 1 {
		start()
	}
}

// Leave ends the turn of the first operation that has entered and not left.
func (c *Corrected) Leave(context uint32) {
	k := c.open.Get(context)
	if k == nil { // it has been abandoned
		return
	}
	if k.turns = slices.Delete(k.turns, 0, 1); len(k.turns) > 0 {
		k.turns[0]()
	}
}

// Barrier calls a barrier of a communicator.
func (c *Corrected) Barrier(context uint32, g agree.Group, caller Caller) {
	k := c.comm(context, g)
	k.calls = append(k.calls, correctedCall{k.m.Barrier(), caller})
	c.drain(k)
}

// Bcast calls a broadcast of the value of the rank root, which is copied.
func (c *Corrected) Bcast(context uint32, g agree.Group, root int, value []byte, caller Caller) {
	k := c.comm(context, g)
	k.calls = append(k.calls, correctedCall{k.m.Bcast(root, value), caller})
	c.drain(k)
}

// comm gives the part in a communicator, and makes it first.
func (c *Corrected) comm(context uint32, g agree.Group) *correctedComm {
	k := c.open.Get(context)
	if k != nil {
		return k
	}
	k = &correctedComm{context: context, group: g, m: corrected.New(context, g.Size(), g.Rank(c.e.Self()))}
	c.open.Put(context, k)
	c.order = append(c.order, k)
	for p := range c.ended.All() {
		c.end(k, p)
	}
	early := c.early.Get(context)
	c.early.Delete(context)
	for _, f := range early {
		if c.bytes[f.from] -= len(f.payload) + earlyHead; !c.ended.Has(f.from) {
			c.receive(k, f.from, f.payload)
		}
	}
	return k
}

// end reports the end of a process to a machine.
func (c *Corrected) end(k *correctedComm, p proc.ID) {
	if rank := k.group.Rank(p); rank >= 0 {
		k.failed = k.failed || c.e.View().Failed(p)
		k.m.Ended(rank)
		c.drain(k)
	}
}

// Free reports the last call on a communicator; operations under way continue. A last barrier shows when all members
// have everything.
func (c *Corrected) Free(context uint32) {
	k := c.open.Get(context)
	if k == nil || k.closing {
		return
	}
	k.closing = true
	c.Enter(context, k.group, func() {
		k.m.Barrier()
		c.drain(k)
		c.Leave(context)
	})
	closed := slices.DeleteFunc(slices.Clone(c.order), func(k *correctedComm) bool {
		return !k.closing || len(k.calls) > 0 || len(k.turns) > 0
	})
	if len(closed) > closedMax {
		c.drop(closed[0])
	}
}

// Abandon ends all operations of a communicator, which has been revoked or validated.
func (c *Corrected) Abandon(context uint32) {
	if k := c.open.Get(context); k != nil {
		c.drop(k)
		for _, call := range k.calls {
			call.caller.Done(0, nil)
		}
		for _, start := range k.turns[min(1, len(k.turns)):] {
			start() // which finds that it cannot
		}
	}
}

// drop forgets a communicator; later frames for it are dropped.
func (c *Corrected) drop(k *correctedComm) {
	c.open.Delete(k.context)
	c.order = slices.DeleteFunc(c.order, func(o *correctedComm) bool { return o == k })
	if c.dropped = append(c.dropped, k.context); len(c.dropped) > closedMax {
		c.dropped = slices.Delete(c.dropped, 0, 1)
	}
}

// GaveUp answers the ranks that wait for this one in communicators whose collectives it has given up.
func (c *Corrected) GaveUp() {
	for _, k := range c.order {
		if len(k.asked) > 0 {
			c.answer(k)
			c.drain(k)
		}
	}
}

func (c *Corrected) answer(k *correctedComm) {
	if !c.comms.GaveUp(k.context) {
		return
	}
	for _, a := range k.asked {
		k.m.Refuse(a.To, a.Number)
	}
	k.asked = nil
}

func (c *Corrected) onFrame(from proc.ID, imm uint64, payload []byte) {
	if c.stopped {
		return
	}
	frame, ok := c.in.take(from, imm, payload)
	context, headed := corrected.Context(frame)
	switch {
	case c.out.full(from):
		c.cutOff(from, errNotReading)
	case !ok || frame != nil && !headed:
		c.cutOff(from, corrected.ErrFrame)
	case frame == nil || slices.Contains(c.dropped, context):
	default:
		c.onWhole(context, from, frame)
	}
}

// onWhole handles a frame that is here.
func (c *Corrected) onWhole(context uint32, from proc.ID, frame []byte) {
	k := c.open.Get(context)
	if k == nil {
		g := c.comms.Members(context)
		if g == nil {
			if !c.comms.GaveUp(context) { // it has not been freed
				c.keep(context, from, frame)
			}
			return
		}
		k = c.comm(context, g)
	}
	c.receive(k, from, frame)
	c.drain(k)
}

// receive handles a frame for a communicator.
func (c *Corrected) receive(k *correctedComm, from proc.ID, frame []byte) {
	rank := k.group.Rank(from)
	if rank < 0 {
		c.cutOff(from, corrected.ErrFrame)
		return
	}
	if err := k.m.Receive(rank, frame); err != nil {
		c.cutOff(from, err)
	}
}

// keep keeps a frame until the first call here.
func (c *Corrected) keep(context uint32, from proc.ID, frame []byte) {
	size := len(frame) + earlyHead // short frames take memory too
	if c.bytes[from]+size > earlyMax {
		c.cutOff(from, corrected.ErrFrame)
		return
	}
	if c.bytes == nil {
		c.bytes = make(map[proc.ID]int)
	}
	c.bytes[from] += size
	c.early.Put(context, append(c.early.Get(context), earlyFrame{from, slices.Clone(frame)}))
}

// cutOff reports a peer that sends malformed frames as corrupt.
func (c *Corrected) cutOff(peer proc.ID, why error) {
	if c.log != nil {
		c.log.Info("cut off for its frames of corrected collectives", "peer", int(peer), "reason", why)
	}
	c.e.Report(peer, proc.Cause{Kind: proc.Corrupt})
}

func (c *Corrected) onEnd(ep *progress.Endpoint, _ proc.Cause) {
	if c.stopped {
		return
	}
	delete(c.in.parts, ep.Proc)
	c.ended.Add(ep.Proc)
	for _, k := range slices.Clone(c.order) {
		c.end(k, ep.Proc)
	}
}

// drain performs the actions of a machine. Consequences are left to the outermost call.
func (c *Corrected) drain(k *correctedComm) {
	if k.draining {
		return
	}
	k.draining = true
	for a, ok := k.m.Next(); ok && !c.stopped; a, ok = k.m.Next() {
		c.perform(k, a)
	}
	k.draining = false
}

func (c *Corrected) perform(k *correctedComm, a corrected.Action) {
	switch a.Kind {
	case corrected.Send:
		c.out.Send(k.group.Proc(a.To), fabric.ClassCorrected, a.Payload)
	case corrected.Timer:
		c.e.After(correctionDelay<<min(a.Step, longestDelay), func() {
			if !c.stopped && c.open.Get(k.context) == k {
				k.m.Tick(a.Number)
				c.drain(k)
			}
		})
	case corrected.Await:
		if c.connectAwaited {
			c.out.Connect(k.group.Proc(a.To))
		}
		if k.failed && a.Needed {
			k.m.Ask(a.To, a.Number)
		}
	case corrected.Asked:
		if !slices.ContainsFunc(k.asked, func(o corrected.Action) bool { return o.To == a.To && o.Number == a.Number }) {
			k.asked = append(k.asked, a) // each: the rank may have the outcome of another operation by the answer
		}
		c.answer(k)
	case corrected.Quit:
		calls := k.calls
		k.calls = nil
		for _, call := range calls {
			call.caller.GaveUp(k.group.Proc(a.To))
		}
	case corrected.Done:
		i := slices.IndexFunc(k.calls, func(call correctedCall) bool { return call.number == a.Number })
		if i < 0 { // one that this rank has given up
			return
		}
		caller := k.calls[i].caller
		k.calls = slices.Delete(k.calls, i, i+1)
		caller.Done(a.Outcome, a.Payload)
	}
}

// Stop ends all of them, for a process that departs.
func (c *Corrected) Stop() { c.stopped = true }
