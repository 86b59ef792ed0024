package control

import (
	"errors"
	"log/slog"
	"slices"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/few"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
)

// Outbox sends control frames reliably and in order to each peer, until the peer ends or this
// process leaves. It connects at the first frame and waits for credit. A frame longer than the
// connection's limit is sent in pieces. Its methods are called with the engine's lock held.
type Outbox struct {
	e   *progress.Engine
	log *slog.Logger // nil: no log

	queues      few.Map[proc.ID, queue] // waiting frames, by receiver
	order       []proc.ID               // receivers of waiting frames, in the order of their first
	dialQueue   []proc.ID               // of those, the ones to connect to
	unreachable few.Map[proc.ID, error] // peers that cannot be reached, and why

	sent    uint64 // waiting frames that have been sent since the start
	dialing bool
	drained *progress.Completion // finished when no frame waits; nil: Flush does not run
	exited  fabric.Parker        // unparked when the dial goroutine has ended
	stopped bool
}

// queue is the frames that wait for a process.
type queue struct {
	frames []queuedFrame
	bytes  int // of the payloads
}

// queuedFrame is a frame that waits, or the rest of it.
type queuedFrame struct {
	class   fabric.Class
	payload []byte
}

// NewOutbox makes the outbox of a process. log may be nil.
func NewOutbox(e *progress.Engine, log *slog.Logger) *Outbox {
	o := &Outbox{
		e: e, log: log, exited: e.Host().NewParker(),
	}
	e.OnBacklog(func() (int, bool) {
		if o.stopped {
			return 0, false
		}
		sent := o.flush()
		return sent, len(o.order) > 0
	})
	return o
}

// Send sends a frame, now or later. The payload is borrowed during the call.
func (o *Outbox) Send(to proc.ID, class fabric.Class, payload []byte) {
	if o.stopped {
		return
	}
	ep := o.e.Lookup(to)
	if ep != nil && ep.State != progress.Alive {
		return
	}
	p := queuedFrame{class, payload}
	q := o.queues.Get(to)
	if len(q.frames) == 0 && ep != nil && p.send(ep) {
		return
	}
	if len(q.frames) == 0 {
		o.order = append(o.order, to)
		o.e.Backlog()
		if ep == nil {
			o.dialQueue = append(o.dialQueue, to)
		}
	}
	p.payload = slices.Clone(p.payload)
	o.queues.Put(to, queue{append(q.frames, p), q.bytes + len(p.payload)})
	o.e.Kick() // a sleeping goroutine does not wait for this credit yet
	o.startDialing()
}

// maxWaiting and maxWaitingBytes bound the frames that wait for a peer which sends frames itself: such a
// peer does not read the answers. Without frames from it, a slow peer may have more. The bytes are those of
// the longest broadcasts in whole windows of dozens of communicators.
const (
	maxWaiting      = 1 << 14
	maxWaitingBytes = 1 << 27
)

var errNotReading = errors.New("it sends frames, and does not take those that wait for it")

// full reports whether more waits for a process than for one that reads.
func (o *Outbox) full(to proc.ID) bool {
	q := o.queues.Get(to)
	return len(q.frames) > maxWaiting || q.bytes > maxWaitingBytes
}

// Connect connects to a process, so that this process learns of its failure.
func (o *Outbox) Connect(to proc.ID) {
	if !o.stopped && o.e.Lookup(to) == nil {
		o.dialQueue = append(o.dialQueue, to)
		o.startDialing()
	}
}

// startDialing starts the dial goroutine if connections are needed.
func (o *Outbox) startDialing() {
	if len(o.dialQueue) > 0 && !o.dialing {
		o.dialing = true
		o.e.Host().Go(o.dial)
	}
}

// more is the immediate of each piece but the last.
const more = 1

// send sends the rest of a frame if there is credit for all of it.
func (p *queuedFrame) send(ep *progress.Endpoint) bool {
	for len(p.payload) > ep.MaxFrame {
		if !ep.TrySend(p.class, more, p.payload[:ep.MaxFrame]) {
			return false
		}
		p.payload = p.payload[ep.MaxFrame:]
	}
	return ep.TrySend(p.class, 0, p.payload)
}

// flush sends as many frames as it can and returns their number.
func (o *Outbox) flush() (sent int) {
	o.order = slices.DeleteFunc(o.order, func(to proc.ID) bool {
		ep := o.e.Lookup(to)
		if ep == nil {
			return false
		}
		q := o.queues.Get(to)
		for len(q.frames) > 0 {
			f := &q.frames[0]
			q.bytes -= len(f.payload)
			if ep.State == progress.Alive && !f.send(ep) {
				q.bytes += len(f.payload) // the rest
				break
			}
			q.frames = q.frames[1:]
			sent++
		}
		if len(q.frames) == 0 {
			o.queues.Delete(to)
			return true
		}
		o.queues.Put(to, q)
		return false
	})
	o.sent += uint64(sent)
	if len(o.order) == 0 && o.drained != nil {
		o.drained.Finish()
	}
	return sent
}

// Flush makes progress and returns when no frame waits: each has been sent, or its receiver has
// ended. It is for a process that is about to leave, and for one goroutine at a time.
//
// It returns the receivers that remain if no frame could be sent for as long as patience: a process
// that is stopped, or computes without progress, must not delay one that leaves.
func (o *Outbox) Flush(patience fabric.Time) (left []proc.ID) {
	if len(o.order) == 0 {
		return nil
	}
	o.drained = new(progress.Completion)
	for handed := o.sent - 1; len(o.order) > 0 && handed != o.sent; {
		handed = o.sent
		tired := o.e.After(patience, o.drained.Finish)
		o.e.Wait(o.drained)
		o.e.Stop(tired)
		o.drained.Reopen()
	}
	o.drained = nil
	return slices.Clone(o.order)
}

// dial makes the connections one after the other, since each waits for the launcher and the kernel.
func (o *Outbox) dial() {
	o.e.Lock()
	for len(o.dialQueue) > 0 && !o.stopped {
		to := o.dialQueue[0]
		o.dialQueue = o.dialQueue[1:]
		o.e.Unlock()
		_, err := o.e.Endpoint(to)
		o.e.Lock()
		if err != nil {
			o.onUnreachable(to, err)
		}
		o.flush()
		o.e.Kick()
	}
	o.dialing = false
	o.exited.Unpark()
	o.e.Unlock()
}

// onUnreachable handles a peer that cannot be connected to. An agreement would wait for it, and a
// revocation must bypass it, so it counts as failed for both.
func (o *Outbox) onUnreachable(to proc.ID, err error) {
	o.queues.Delete(to)
	o.order = slices.DeleteFunc(o.order, func(p proc.ID) bool { return p == to })
	if o.stopped || errors.Is(err, progress.ErrClosed) {
		return
	}
	if o.log != nil {
		o.log.Info("agreements and revocations do not reach it: it counts as failed here", "peer", int(to), "reason", err)
	}
	o.unreachable.Put(to, err)
	o.e.Report(to, progress.Unreachable(err))
}

// Unreachable returns why a peer could not be connected to, or nil.
func (o *Outbox) Unreachable(peer proc.ID) error { return o.unreachable.Get(peer) }

// Stop drops the waiting frames and returns when the dial goroutine has ended.
func (o *Outbox) Stop() {
	o.stopped = true
	for o.dialing {
		o.e.Unlock()
		o.exited.Park()
		o.e.Lock()
	}
}

// inbox reassembles frames from pieces.
type inbox struct {
	parts   map[proc.ID][]byte
	longest int
}

// take returns the frame that a piece completes, or nil if more pieces follow; false: the frame is
// too long.
func (i *inbox) take(from proc.ID, imm uint64, payload []byte) (frame []byte, ok bool) {
	have := i.parts[from]
	if imm&more == 0 && have == nil {
		return payload, true
	}
	if len(have)+len(payload) > i.longest {
		delete(i.parts, from)
		return nil, false
	}
	if cap(have) < len(have)+len(payload) { // bounds the garbage by the size of the queue
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
