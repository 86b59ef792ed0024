package p2p

import (
	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
)

// Rendezvous counts messages that were announced, and their bytes.
type Rendezvous struct{ Messages, Bytes uint64 }

func (c *Rendezvous) add(n int) {
	c.Messages++
	c.Bytes += uint64(n)
}

// Announced counts the messages by rendezvous to a peer and from it. Those of collectives count too.
//
// Precondition: the lock is held.
func (e *Engine) Announced(peer proc.ID) (sent, received Rendezvous) {
	if l := e.findLink(peer); l != nil {
		return l.announcedEver, l.heardEver
	}
	return sent, received
}

// sendRendezvous announces the message and keeps the buffer for the receiver.
func (e *Engine) sendRendezvous(l *link, r *Request, imm uint64, how manner) {
	var region fabric.Region
	if len(r.buf) > 0 {
		var err error
		if region, err = l.ep.Conn().Expose(r.buf); err != nil {
			region = fabric.Region{} // the receiver will ask for a stream
		}
	}
	e.control(l, fabric.ClassRTS, imm, appendRTS(e.scratch[:0],
		rts{sender: r.wire(), total: uint64(len(r.buf)), lent: how == lent, region: region}))
	l.addActive(r) // the rest while the frame is under way
	r.total, r.announced = len(r.buf), true
	l.announced++
	l.announcedEver.add(len(r.buf))
}

// announceNow is sendRendezvous of a new request, if nothing keeps the message from that; else nil.
func (e *Engine) announceNow(c *Comm, l *link, buf []byte, imm uint64, how manner) *Request {
	if l.small < 0 || l.announced == maxAnnounced || c.state.Load() != 0 {
		return nil
	}
	r := e.newRequest(c, reqSend, buf)
	r.imm, r.link = imm, l
	e.sendRendezvous(l, r, imm, how)
	return r
}

// waitAnnounced waits for a send of announceNow. Precondition: the lock is held; waitAnnounced releases it.
func (e *Engine) waitAnnounced(r *Request) error {
	c := r.comm
	_, err := e.Take(Handle{r, r.gen})
	e.p.Unlock()
	return c.notifyHandler(err)
}

// awaitFin waits for the answer to an announced send as Recv does for a message, and reports whether that has ended it.
func (e *Engine) awaitFin(r *Request) bool {
	l := r.link
	if r.busy || e.p.AwaitFrame(l.ep, fabric.ClassFin, r.wire()) < 0 { // a copy of this process's may be under way
		return false
	}
	e.answered(l, r)
	return r.Done()
}

// copiedNow is the length up to which Recv copies an announced message itself, with the lock held: 10 µs or less.
const copiedNow = 64 << 10

// takeAnnounced receives the message that the next frame of the peer announces, if it lies where it can be copied from
// at once; else it returns a negative number, and Poll delivers the frame.
func (e *Engine) takeAnnounced(l *link, imm uint64, buf []byte) int {
	a, ok := decodeRTS(l.ep.Next(fabric.ClassRTS, imm))
	n := int(a.total)
	if !ok || a.region.Len == 0 || n > min(len(buf), copiedNow) || !l.ep.ReadNow(buf[:n], a.region) {
		return -1
	}
	l.ep.Advance()
	e.control(l, fabric.ClassFin, a.sender, nil)
	l.heardEver.add(n)
	return n
}

// onCTS streams the data of an announced message.
func (e *Engine) onCTS(from proc.ID, imm uint64, payload []byte) {
	l := e.findLink(from)
	r := e.announced(imm, l)
	to, ok := decodeHandle(payload)
	switch {
	case r != nil && len(payload) > 8:
		e.onOffer(l, r, payload)
	case r == nil || !ok || to == 0:
		e.refused++
	case r.busy: // donePush continues
		r.streamTo = to
	default:
		e.stream(l, r, to)
	}
}

func (e *Engine) stream(l *link, r *Request, to uint64) {
	e.endAnnouncement(l, r)
	e.data(l, r, fabric.ClassFrag, to, true)
}

// onFin completes a send whose data have been pulled, or that is empty.
func (e *Engine) onFin(from proc.ID, imm uint64, _ []byte) {
	l := e.findLink(from)
	r := e.request(imm, l)
	switch {
	case r != nil && r.offered:
		e.onPushed(l, r)
	case r == nil || !r.announced:
		e.refused++
	default:
		e.answered(l, r)
	}
}

// answered completes a send whose Fin has come.
func (e *Engine) answered(l *link, r *Request) {
	l.finCount++
	if r.busy { // donePush continues
		r.settled = true
		return
	}
	e.endAnnouncement(l, r)
	r.Finish()
}

// announced returns the send that waits for the receiver's answer under that name, or nil.
func (e *Engine) announced(wire uint64, l *link) *Request {
	if r := e.request(wire, l); r != nil && r.announced {
		return r
	}
	return nil
}

func (e *Engine) onRTS(from proc.ID, imm uint64, payload []byte) {
	ep := e.p.Lookup(from)
	m := e.unexpected.newMessage()
	a, ok := decodeRTS(payload)
	var l *link
	if ok && ep != nil {
		l = e.linkFor(ep)
	}
	switch {
	case l == nil:
		e.refused++
	case l.waiting == maxAnnounced:
		e.cutOff(l)
	}
	if l == nil || l.cutOff {
		e.unexpected.release(m)
		return
	}
	l.waiting++
	l.heardEver.add(int(a.total))
	m.from, m.imm, m.total, m.rts, m.link = from, imm, int(a.total), true, l
	a.region.Key = append(m.region.Key[:0], a.region.Key...) // the payload is borrowed
	m.region, m.remote, m.lent = a.region, a.sender, a.lent
	if r := e.posted.match(from, imm); r != nil {
		e.take(r, m)
		return
	}
	e.addUnexpected(m)
}

// fetch gets the data of an announced message: it pulls them, or asks for a stream.
func (e *Engine) fetch(l *link, r *Request) {
	if r.total == 0 { // an empty synchronous send waits for the match alone
		e.control(l, fabric.ClassFin, r.remote, nil)
		r.received(0)
		return
	}
	l.addActive(r)
	f, keyed := l.ep.Fetcher(), len(r.region.Key) > 0
	switch {
	case r.region.Len == 0:
	case keyed && f != nil:
		if f.Fetch(r.buf[:min(r.total, len(r.buf))], r.region, r.wire()) == nil {
			r.fetching = true
			return
		}
	case keyed || l.ep.Get:
		r.busy = true
		r.job = progress.Job{Begin: beginPull, Run: runPull, Done: donePull, Arg: r}
		e.p.Submit(&r.job)
		return
	}
	r.streaming = true
	e.control(l, fabric.ClassCTS, r.remote, appendUint64(e.scratch[:0], r.wire()+1)) // 0 is the eager stream's
}

// runPull copies without the lock. The request is busy, so nothing else touches its buffer.
func runPull(j *progress.Job) {
	r := j.Arg.(*Request)
	n := min(r.total, len(r.buf))
	if r.offered {
		r.shared, r.pullErr = r.link.ep.GetOffered(r.buf[:n], r.region)
		return
	}
	r.pullErr = r.link.ep.Conn().Get(r.buf[:n], r.region, 0)
}

// donePull continues after a copy.
func donePull(j *progress.Job) {
	r := j.Arg.(*Request)
	switch r.busy = false; {
	case !r.shared || r.pushed:
		r.comm.e.copied(r)
	case r.err != nil:
		awaitQuiet(r)
	} // else the sender has not copied its parts
}

// copied continues after a copy, of both sides if they share it.
func (e *Engine) copied(r *Request) {
	why := r.pullErr
	r.pullErr = nil
	complete := true
	if r.offered {
		r.offered, r.shared, r.pushed = false, false, false
		complete = r.link.ep.EndOffer()
	}
	if r.err != nil { // the peer ended during the copy
		r.link.removeActive(r)
		r.Finish()
		return
	}
	if !complete && why == nil {
		r.link.removeActive(r)
		e.fetch(r.link, r)
		return
	}
	if why != nil && !isPeerGone(why) && len(r.region.Key) == 0 {
		r.link.ep.Get = false // the kernel does not allow it
	}
	e.pulled(r.link, r, why)
}

// onFetched continues after a read of an adapter.
func (e *Engine) onFetched(from proc.ID, token uint64, why error) {
	l := e.findLink(from)
	if r := e.request(token, l); r != nil && r.fetching {
		r.fetching = false
		e.pulled(l, r, why)
	}
}

// pulled completes a receive. If the data could not be pulled because of the peer's end, the report of that end
// completes the receive. After any other error the data are streamed.
func (e *Engine) pulled(l *link, r *Request, why error) {
	switch {
	case why == nil:
		l.removeActive(r)
		e.control(l, fabric.ClassFin, r.remote, nil)
		r.received(r.total)
	case !isPeerGone(why):
		r.region = fabric.Region{Key: r.region.Key[:0]}
		l.removeActive(r)
		e.fetch(l, r)
	}
}

// streamed handles a fragment of an announced message.
func (e *Engine) streamed(l *link, imm uint64, payload []byte) {
	r := e.request(imm-1, l)
	if r == nil || !r.streaming || len(payload) > r.total-r.got {
		e.refused++
		return
	}
	if r.got < len(r.buf) {
		copy(r.buf[r.got:], payload)
	}
	e.advance(l, r, len(payload))
}

// advance counts n more bytes of an announced message.
func (e *Engine) advance(l *link, r *Request, n int) {
	r.got += n
	if r.got == r.total {
		l.removeActive(r)
		r.received(r.total)
	}
}
