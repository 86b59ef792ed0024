package control

import (
	"errors"
	"slices"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
)

// Outbox sends control frames that must arrive: in order to each peer, over a connection that
// is made at the first frame, whenever there is credit, until the peer ends or this process
// leaves. A frame that is longer than the connection takes goes in pieces. Its methods are
// called with the engine's lock held.
type Outbox struct {
	e    *progress.Engine
	logf func(format string, args ...any)

	queues  map[proc.ID][]parcel // what waits, by receiver
	order   []proc.ID            // receivers of what waits, the first to have waited first
	strange []proc.ID            // of those, the ones to connect to
	cut     map[proc.ID]error    // who cannot be reached, and why

	handed     uint64 // parcels that waited and have been handed over
	connecting bool
	empty      *progress.Completion // finished when nothing waits; nil: nobody wants to know
	gone       fabric.Parker        // unparked when the goroutine that connects has ended
	over       bool
}

// parcel is a frame that waits.
type parcel struct {
	class   fabric.Class
	payload []byte
}

// NewOutbox makes the outbox of a process. logf receives remarks; nil discards them.
func NewOutbox(e *progress.Engine, logf func(format string, args ...any)) *Outbox {
	return &Outbox{
		e: e, logf: logf, queues: make(map[proc.ID][]parcel), cut: make(map[proc.ID]error), gone: e.Host().NewParker(),
	}
}

// Send hands a frame over, now or later. The payload is borrowed until it returns.
func (o *Outbox) Send(to proc.ID, class fabric.Class, payload []byte) {
	if o.over {
		return
	}
	ep := o.e.Lookup(to)
	if ep != nil && ep.State != progress.Alive {
		return
	}
	p := parcel{class, payload}
	if len(o.queues[to]) == 0 && ep != nil && p.send(ep) {
		return
	}
	if len(o.queues[to]) == 0 {
		o.order = append(o.order, to)
		o.e.Backlog(o.flush)
		if ep == nil {
			o.strange = append(o.strange, to)
		}
	}
	p.payload = slices.Clone(p.payload)
	o.queues[to] = append(o.queues[to], p)
	o.e.Kick() // who sleeps has not armed for what waits
	o.reach()
}

// waiting is how many frames wait for a process.
func (o *Outbox) waiting(to proc.ID) int { return len(o.queues[to]) }

// Meet connects to a process, for its death to become known here.
func (o *Outbox) Meet(to proc.ID) {
	if !o.over && o.e.Lookup(to) == nil {
		o.strange = append(o.strange, to)
		o.reach()
	}
}

// reach has the connections be made that are wanted.
func (o *Outbox) reach() {
	if len(o.strange) > 0 && !o.connecting {
		o.connecting = true
		o.e.Host().Go(o.connect)
	}
}

// more is the immediate of a piece that is not the last.
const more = 1

// send hands over what is left of a parcel, if there is credit for all of it.
func (p *parcel) send(ep *progress.Endpoint) bool {
	for len(p.payload) > ep.MaxFrame {
		if !ep.TrySend(p.class, more, p.payload[:ep.MaxFrame]) {
			return false
		}
		p.payload = p.payload[ep.MaxFrame:]
	}
	return ep.TrySend(p.class, 0, p.payload)
}

// flush sends what can be sent now, and says how much that was.
func (o *Outbox) flush() (sent int) {
	o.order = slices.DeleteFunc(o.order, func(to proc.ID) bool {
		ep := o.e.Lookup(to)
		if ep == nil {
			return false
		}
		queue := o.queues[to]
		for len(queue) > 0 && (ep.State != progress.Alive || queue[0].send(ep)) {
			queue = queue[1:]
			sent++
		}
		if o.queues[to] = queue; len(queue) == 0 {
			delete(o.queues, to)
		}
		return len(queue) == 0
	})
	o.handed += uint64(sent)
	if len(o.order) == 0 {
		o.e.Backlog(nil)
		if o.empty != nil {
			o.empty.Finish()
		}
	}
	return sent
}

// Flush makes progress and returns when nothing waits: what was sent has been handed over, or its
// receiver is gone. For a process that is about to leave, one goroutine at a time.
//
// It gives up on who takes nothing for as long as patience, if nobody else does either: a process that is stopped, or
// computes and has nobody to make progress for it, must not hold up one that leaves. It answers who these are.
func (o *Outbox) Flush(patience fabric.Time) (left []proc.ID) {
	if len(o.order) == 0 {
		return nil
	}
	o.empty = new(progress.Completion)
	for handed := o.handed - 1; len(o.order) > 0 && handed != o.handed; {
		handed = o.handed
		tired := o.e.After(patience, o.empty.Finish)
		o.e.Wait(o.empty)
		o.e.Stop(tired)
		o.empty.Reopen()
	}
	o.empty = nil
	return slices.Clone(o.order)
}

// connect makes the connections that are wanted, one after the other, since that waits for
// the launcher and the kernel.
func (o *Outbox) connect() {
	o.e.Lock()
	for len(o.strange) > 0 && !o.over {
		to := o.strange[0]
		o.strange = o.strange[1:]
		o.e.Unlock()
		_, err := o.e.Endpoint(to)
		o.e.Lock()
		if err != nil {
			o.unreached(to, err)
		}
		o.flush()
		o.e.Kick()
	}
	o.connecting = false
	o.gone.Unpark()
	o.e.Unlock()
}

// unreached gives a peer up to which no connection can be made. An agreement would wait for it, and a revocation has
// to go round it: so it counts as failed, of which both are told.
func (o *Outbox) unreached(to proc.ID, err error) {
	delete(o.queues, to)
	o.order = slices.DeleteFunc(o.order, func(p proc.ID) bool { return p == to })
	if o.over || errors.Is(err, progress.ErrClosed) {
		return
	}
	if o.logf != nil {
		o.logf("agreements and revocations do not reach %v, which counts as failed here: %v", to, err)
	}
	o.cut[to] = err
	o.e.Report(to, progress.Unreachable(err))
}

// Unreached says why a peer could not be connected to; nil if it could, or nobody has tried.
func (o *Outbox) Unreached(peer proc.ID) error { return o.cut[peer] }

// Stop gives up what waits and returns when nothing of the outbox runs any more.
func (o *Outbox) Stop() {
	o.over = true
	o.e.Backlog(nil)
	for o.connecting {
		o.e.Unlock()
		o.gone.Park()
		o.e.Lock()
	}
}

// inbox puts frames that came in pieces together again.
type inbox struct {
	parts map[proc.ID][]byte
	most  int
}

// take gives the frame that a piece completes; nil: there is more to come. False: it is longer than
// any frame.
func (i *inbox) take(from proc.ID, imm uint64, payload []byte) (frame []byte, ok bool) {
	have := i.parts[from]
	if imm&more == 0 && have == nil {
		return payload, true
	}
	if len(have)+len(payload) > i.most {
		delete(i.parts, from)
		return nil, false
	}
	if cap(have) < len(have)+len(payload) { // what is outgrown is garbage: no more of it than is kept
		have = slices.Grow(have, max(len(have), len(payload)))
	}
	if have = append(have, payload...); imm&more == 0 {
		delete(i.parts, from)
		return have, true
	}
	if i.parts == nil {
		i.parts = make(map[proc.ID][]byte)
	}
	i.parts[from] = have
	return nil, true
}
