package p2p

import (
	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/progress"
)

// op is a frame, or a run of fragments, that waits for credit.
type op struct {
	class fabric.Class
	imm   uint64
	data  []byte
	// frags: data are sent as fragments of at most a frame each.
	frags bool
	// req completes when the last byte has been handed over; nil for control frames.
	req *Request
	how manner // of a held send
	// handedOver: no frame; it completes when all frames before it have left this process.
	handedOver Promise
	counter    *int               // of its link, which counts it, or nil
	small      [controlBytes]byte // holds the data of control frames
	next       *op
}

// controlBytes bounds a control frame: an RTS with its key.
const controlBytes = 128

func (e *Engine) newOp() *op {
	o := e.freeOps
	if o == nil {
		return new(op)
	}
	e.freeOps = o.next
	return o
}

func (e *Engine) freeOp(o *op) {
	if o.counter != nil {
		*o.counter--
	}
	o.data, o.req, o.frags, o.how, o.counter, o.handedOver = nil, nil, false, standard, nil, Promise{}
	o.next = e.freeOps
	e.freeOps = o
}

// control sends a control frame now or, without credit, later.
func (e *Engine) control(l *link, class fabric.Class, imm uint64, payload []byte) {
	if l.first == nil && l.ep.TrySend(class, imm, payload) || l.cutOff {
		return
	}
	o := e.newOp()
	o.class, o.imm = class, imm
	o.data = o.small[:copy(o.small[:], payload)]
	switch flow := class == fabric.ClassFlow; {
	case class == fabric.ClassFirst: // bounded by the budget of messages
	case flow && imm == flowInquire: // bounded by the requests of this process
	case flow && imm == flowGaveUp: // bounded by maxInquiries
		o.counter = &l.inquiries
		l.inquiries++
	default:
		o.counter = &l.answers
		if l.answers++; l.answers > maxAnswers {
			e.cutOff(l)
		}
	}
	e.enqueue(l, o)
}

// data queues a request's bytes and sends as many as credit permits.
func (e *Engine) data(l *link, r *Request, class fabric.Class, imm uint64, frags bool) {
	o := e.newOp()
	o.class, o.imm, o.data, o.req, o.frags = class, imm, r.buf, r, frags
	l.addActive(r)
	e.enqueue(l, o)
}

// HandOver returns a request that completes when all frames to rank dst have left this process, so that
// its death loses none of them, or when dst has ended. The zero Handle: that is so already.
func (c *Comm) HandOver(dst int) Handle {
	e := c.e
	e.p.Lock()
	defer e.p.Unlock()
	l := e.findLink(c.peers.Proc(dst))
	if l == nil || l.first == nil && !l.ep.Unsent() || l.ep.State != progress.Alive {
		return Handle{}
	}
	o := e.newOp()
	var h Handle
	o.handedOver, h = e.NewPromise(c, "collective")
	e.enqueue(l, o)
	return h
}

func (e *Engine) enqueue(l *link, o *op) {
	o.next = nil
	if l.first == nil {
		l.first, l.last = o, o
		if !l.listed {
			l.listed = true
			e.stalled = append(e.stalled, l)
		}
		l.open()
		e.p.Kick() // a sleeping goroutine does not wait for this credit yet
		return
	}
	l.last.next = o
	l.last = o
}

// pumpAll sends queued frames as far as credit permits and returns their number.
func (e *Engine) pumpAll() int {
	if len(e.stalled) == 0 {
		return 0
	}
	n := 0
	still := e.stalled[:0]
	for _, l := range e.stalled {
		n += e.pump(l)
		if l.listed = l.first != nil; l.listed {
			still = append(still, l)
		}
	}
	e.stalled = still
	e.flushed()
	return n
}

func (e *Engine) pump(l *link) int {
	n := 0
	for l.first != nil {
		sent, done := l.first.send(l)
		n += sent
		if !done {
			return n
		}
		e.shift(l)
	}
	return n
}

// shift removes the first op and completes its request.
func (e *Engine) shift(l *link) {
	o := l.first
	l.first = o.next
	if l.first == nil {
		l.open()
	}
	o.handedOver.Complete(nil)
	if r := o.req; r != nil && r.lent > 0 {
		r.handed = true // onReturned completes it
	} else if r != nil {
		l.removeActive(r)
		r.Finish()
	}
	e.freeOp(o)
}

// pumpFrames bounds the fragments that one link sends before arrivals are polled again.
const pumpFrames = 16

// send hands over as much as credit permits.
func (o *op) send(l *link) (frames int, done bool) {
	if o.handedOver != (Promise{}) {
		return 0, !l.ep.Unsent()
	}
	if !o.frags {
		ok := l.ep.TrySend(o.class, o.imm, o.data)
		if !ok {
			return 0, false
		}
		return 1, true
	}
	for ; len(o.data) > 0; frames++ {
		if frames == pumpFrames {
			return frames, false
		}
		if len(o.data) >= lendFrom && l.ep.Lends > 0 {
			if !o.lend(l) {
				return frames, false
			}
			continue
		}
		n := min(len(o.data), l.ep.MaxFrame)
		if !l.ep.TrySend(o.class, o.imm, o.data[:n]) {
			return frames, false
		}
		o.data = o.data[n:]
	}
	return frames, true
}
