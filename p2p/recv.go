package p2p

import (
	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
)

// Recv receives a message from rank src (or AnySource) with a tag (or AnyTag)
// into buf. A longer message fills buf and is ft.ErrTruncate. Other errors:
// ft.ErrArgument, ft.ErrProcFailed, ft.ErrRevoked, ft.ErrDeparted.
func Recv[M Mode](c *Comm, buf []byte, src, tag int) (Status, error) {
	if checked[M]() && c.state.Load() != 0 {
		return c.recvInDoubt(buf, src, tag)
	}
	l := c.link(src)
	if l == nil || uint(tag) > MaxTag {
		return c.recvSlow(buf, src, tag)
	}
	e := c.e
	e.p.Lock()
	// Nothing else is posted and nothing has arrived: the next message from
	// src, if it matches, is this receive's and needs no queue.
	if e.posted.n == 0 && e.early.n == 0 {
		if n := e.p.Await(l.ep, fabric.ClassEager, c.ctx|uint64(tag), buf); n >= 0 {
			e.p.Unlock()
			return Status{Source: src, Tag: tag, Count: n}, nil
		}
	}
	r := e.newRequest(c, reqRecv, buf)
	e.post(r, l.peer, c.ctx|uint64(tag))
	return e.finish(r, src)
}

// finish waits for a posted receive from rank src. It is a function of its own
// to keep Recv's frame small. Precondition: the lock is held; it gives it back.
func (e *Engine) finish(r *Request, src int) (Status, error) {
	e.p.Wait(&r.Completion)
	c, st, err := r.comm, Status{Source: src, Tag: r.tag, Count: r.count}, r.err
	e.recycle(r)
	e.p.Unlock()
	return st, c.raise(err)
}

// recvInDoubt is Recv where the state word was not zero.
func (c *Comm) recvInDoubt(buf []byte, src, tag int) (Status, error) {
	if err := c.checkState("recv", src == AnySource); err != nil {
		return Status{}, c.raise(err)
	}
	return Recv[Unaware](c, buf, src, tag)
}

func (c *Comm) irecvInDoubt(buf []byte, src, tag int) Handle {
	if err := c.checkState("recv", src == AnySource); err != nil {
		return c.e.failed(c, reqRecv, err)
	}
	return Irecv[Unaware](c, buf, src, tag)
}

func (c *Comm) recvSlow(buf []byte, src, tag int) (Status, error) {
	st, err := c.e.finishNow(c.irecvSlow(buf, src, tag))
	return st, c.raise(err)
}

// Irecv posts a receive into buf. Errors are the request's. One from AnySource may
// be ft.ErrProcFailedPending: then it has not ended.
func Irecv[M Mode](c *Comm, buf []byte, src, tag int) Handle {
	if checked[M]() && c.state.Load() != 0 {
		return c.irecvInDoubt(buf, src, tag)
	}
	l := c.link(src)
	if l == nil || uint(tag) > MaxTag {
		return c.irecvSlow(buf, src, tag)
	}
	e := c.e
	e.p.Lock()
	r := e.newRequest(c, reqRecv, buf)
	h := Handle{r, r.gen}
	e.post(r, l.peer, c.ctx|uint64(tag))
	e.p.Unlock()
	return h
}

// irecvSlow is every receive with a wildcard, and the first from a rank.
func (c *Comm) irecvSlow(buf []byte, src, tag int) Handle {
	key, err := c.source("recv", src, tag)
	if err != nil {
		return c.e.failed(c, reqRecv, err)
	}
	e := c.e
	e.p.Lock()
	defer e.p.Unlock()
	if c.nobody(src) {
		return e.nullRecv(c)
	}
	r := e.newRequest(c, reqRecv, buf)
	h := Handle{r, r.gen}
	if src == AnySource && c.doubtful() {
		e.p.Progress() // what it would match may have arrived
	}
	e.post(r, key, c.ctx|uint64(uint32(tag)))
	if src == AnySource && !r.Done() && r.from == proc.None && c.doubtful() {
		r.suspend()
	}
	return h
}

// Sendrecv sends and receives at once; neither waits for the other.
func Sendrecv[M Mode](c *Comm, sbuf []byte, dst, stag int, rbuf []byte, src, rtag int) (Status, error) {
	h := Irecv[M](c, rbuf, src, rtag)
	serr := Send[M](c, sbuf, dst, stag)
	if serr != nil {
		c.e.Cancel(h)
	}
	st, err := c.e.finishNow(h)
	if serr != nil {
		return st, serr // Send has told of it
	}
	return st, c.raise(err)
}

// source checks a receive's or probe's arguments and gives what to match; see nobody
// for ranks without a process. It connects to a named rank, so that its end will be
// noticed.
func (c *Comm) source(op string, src, tag int) (proc.ID, error) {
	switch {
	case uint(tag) > MaxTag && tag != AnyTag:
		return 0, c.badTag(op, tag)
	case src == AnySource || src == ProcNull:
		return proc.None, nil
	case uint(src) >= uint(c.reach):
		return 0, c.badRank(op, src)
	case c.link(src) != nil:
		return c.peers.Proc(src), nil
	}
	l, err := c.connect(src)
	if err != nil {
		return 0, c.unmetError(op, "from", src, err)
	}
	return l.peer, nil
}

// post matches r with what has arrived, or leaves it to wait.
func (e *Engine) post(r *Request, src proc.ID, imm uint64) {
	r.src, r.imm, r.from = src, imm, proc.None
	if collective(imm) && e.contradicted(r) {
		return
	}
	if m := e.early.match(src, imm); m != nil {
		e.take(r, m)
		return
	}
	if err := r.comm.hopeless("recv", src); err != nil {
		r.fail(err)
		e.stuck(r)
		return
	}
	if collective(imm) && r.unsure() && !e.waits(e.known(src), r) {
		return
	}
	e.posted.add(r)
}

// hopeless says why an operation is not to wait for a message from src.
func (c *Comm) hopeless(op string, src proc.ID) error {
	if err := c.check(op); err != nil {
		return err
	}
	if src == proc.None {
		return c.deserted(op)
	}
	l := c.e.known(src)
	if l == nil || l.ep.State == progress.Alive {
		return nil
	}
	return c.lost(op, l)
}

// take gives an unexpected message to the receive that matches it.
func (e *Engine) take(r *Request, m *message) {
	r.matched(m.from, m.imm)
	if m.rts {
		key := append(r.region.Key[:0], m.region.Key...) // the message keeps its own
		r.total, r.region, r.remote = m.total, m.region, m.remote
		r.region.Key = key
		l := m.link
		l.waiting--
		e.early.release(m)
		e.fetch(l, r)
		return
	}
	e.unkept(m)
	copy(r.buf, m.data)
	if m.got == m.total {
		r.received(m.total)
		e.early.release(m)
		return
	}
	if !m.placed {
		e.early.dropData(m)
	}
	m.req = r
	m.link.attend(r)
}

func (e *Engine) onEager(from proc.ID, imm uint64, payload []byte) {
	r := e.posted.match(from, imm)
	if r == nil {
		m := e.unexpected(from, imm, len(payload))
		if m == nil {
			return
		}
		m.data = append(m.data, payload...)
		m.got = len(payload)
		e.keep(m)
		return
	}
	r.matched(from, imm)
	if len(payload) == 8 && len(r.buf) >= 8 {
		*(*[8]byte)(r.buf) = *(*[8]byte)(payload)
	} else {
		copy(r.buf, payload)
	}
	r.received(len(payload))
}

// onFirst begins a message in fragments.
func (e *Engine) onFirst(from proc.ID, imm uint64, payload []byte) {
	l, total, ok := e.sender(from, payload)
	if !ok || l.in != nil {
		e.refused++
		return
	}
	r := e.posted.match(from, imm)
	if r == nil {
		if l.in = e.unexpected(from, imm, total); l.in != nil {
			e.keep(l.in)
		}
		return
	}
	l.in = e.early.newMessage()
	l.in.from, l.in.imm, l.in.total, l.in.link, l.in.req = from, imm, total, l, r
	r.matched(from, imm)
	l.attend(r)
}

// sender gives the link of whoever sent a First, and its length if that is one
// that an eager message can have.
func (e *Engine) sender(from proc.ID, payload []byte) (*link, int, bool) {
	total, ok := decodeLength(payload)
	ep := e.p.Lookup(from)
	if !ok || ep == nil || total == 0 || total > LongestEager {
		return nil, 0, false
	}
	return e.adopt(ep), total, true
}

// onFrag takes the next fragment: of the eager message that is arriving, or of
// the streamed one that imm names.
func (e *Engine) onFrag(from proc.ID, imm uint64, payload []byte) {
	l := e.known(from)
	if imm != 0 {
		e.streamed(l, imm, payload)
		return
	}
	if l == nil || l.in == nil || len(payload) > l.in.total-l.in.got {
		e.refused++
		return
	}
	m := l.in
	switch {
	case m.orphan:
	case m.req == nil:
		m.data = append(m.data, payload...)
	case m.got < len(m.req.buf):
		copy(m.req.buf[m.got:], payload)
	}
	e.arrived(l, len(payload))
}

// arrived counts n bytes more of the message that is arriving, and completes it.
func (e *Engine) arrived(l *link, n int) {
	m := l.in
	m.got += n
	if m.got < m.total {
		return
	}
	l.in, m.placed = nil, false
	if r := m.req; r != nil {
		l.leave(r)
		r.received(m.total)
	}
	if m.req != nil || m.orphan {
		e.early.release(m)
	}
}

// streamed takes a fragment of a message that was announced.
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

// advance counts n bytes more of an announced message.
func (e *Engine) advance(l *link, r *Request, n int) {
	r.got += n
	if r.got == r.total {
		l.leave(r)
		r.received(r.total)
	}
}

func (e *Engine) onRTS(from proc.ID, imm uint64, payload []byte) {
	ep := e.p.Lookup(from)
	m := e.early.newMessage()
	a, ok := decodeRTS(payload, m.region.Key)
	var l *link
	if ok && ep != nil {
		l = e.adopt(ep)
	}
	switch {
	case l == nil:
		e.refused++
	case l.waiting == maxAnnounced:
		e.excess(l)
	}
	if l == nil || l.exceeded {
		e.early.release(m)
		return
	}
	l.waiting++
	m.from, m.imm, m.total, m.rts, m.link = from, imm, int(a.total), true, l
	m.region, m.remote = a.region, a.sender
	if r := e.posted.match(from, imm); r != nil {
		e.take(r, m)
		return
	}
	e.keep(m)
}

// fetch gets the data of an announced message: pull them, or have them
// streamed.
func (e *Engine) fetch(l *link, r *Request) {
	if r.total == 0 { // a synchronous send of nothing waits for the match alone
		e.control(l, fabric.ClassFin, r.remote, nil)
		r.received(0)
		return
	}
	l.attend(r)
	if l.ep.Get && r.region.Len != 0 {
		r.busy = true
		r.job = progress.Job{Run: runPull, Done: donePull, Arg: r}
		e.p.Submit(&r.job)
		return
	}
	r.streaming = true
	e.control(l, fabric.ClassCTS, r.remote, appendUint64(e.scratch[:0], r.wire()+1)) // 0 is the eager stream's
}

// runPull copies without the lock; the request is busy and nobody else touches
// its buffer.
func runPull(j *progress.Job) {
	r := j.Arg.(*Request)
	n := min(r.total, len(r.buf))
	r.pullErr = r.link.ep.Conn().Get(r.buf[:n], r.region, 0)
}

// donePull completes the receive. If the copy failed because the peer is gone,
// its end will be reported and complete the receive; for any other reason the
// data are asked for again, streamed, and Get is not tried any more.
func donePull(j *progress.Job) {
	r := j.Arg.(*Request)
	e, l := r.comm.e, r.link
	r.busy = false
	switch {
	case r.err != nil: // the peer's end became known during the copy
		l.leave(r)
		r.Finish()
	case r.pullErr == nil:
		l.leave(r)
		e.control(l, fabric.ClassFin, r.remote, nil)
		r.received(r.total)
	case !isGone(r.pullErr):
		l.ep.Get = false
		l.leave(r)
		e.fetch(l, r)
	}
	r.pullErr = nil
}
