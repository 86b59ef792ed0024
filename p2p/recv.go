package p2p

import (
	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
)

// Recv receives a message from rank src (or AnySource) with a tag (or AnyTag) into buf. A longer
// message fills buf and returns ft.ErrTruncate. Other errors: ft.ErrArgument, ft.ErrProcFailed,
// ft.ErrRevoked, ft.ErrDeparted.
func Recv[M Mode](c *Comm, buf []byte, src, tag int) (Status, error) {
	if checked[M]() && c.state.Load() != 0 {
		return c.recvChecked(buf, src, tag)
	}
	l := c.link(src)
	if l == nil || uint(tag) > MaxTag {
		return c.recvSlow(buf, src, tag)
	}
	e := c.e
	e.p.Lock()
	// Nothing else is posted and nothing has arrived: the next message from src, if it matches,
	// belongs to this receive and needs no queue.
	if e.posted.n == 0 && e.unexpected.n == 0 {
		n := e.p.Await(l.ep, fabric.ClassEager, c.ctx|uint64(tag), buf)
		if n < progress.NotYet {
			n = e.takeAnnounced(l, c.ctx|uint64(tag), buf)
		}
		if n >= 0 {
			e.p.Unlock()
			return Status{Source: src, Tag: tag, Count: n}, nil
		}
	}
	r := e.newRequest(c, reqRecv, buf)
	e.post(r, l.peer, c.ctx|uint64(tag))
	return e.finish(r, src)
}

// finish waits for a posted receive from rank src. It is a separate function to keep Recv's frame
// small. Precondition: the lock is held; finish releases it.
func (e *Engine) finish(r *Request, src int) (Status, error) {
	e.p.WaitFor(&r.Completion, e.partner(r))
	c, st, err := r.comm, Status{Source: src, Tag: r.tag, Count: r.count}, r.err
	e.recycle(r)
	e.p.Unlock()
	return st, c.notifyHandler(err)
}

// recvChecked is Recv with a state word that is not zero.
func (c *Comm) recvChecked(buf []byte, src, tag int) (Status, error) {
	if err := c.checkState(src == AnySource); err != nil {
		return Status{}, c.notifyHandler(c.opError(reqRecv, src, tag, len(buf), err))
	}
	return Recv[Unaware](c, buf, src, tag)
}

func (c *Comm) irecvChecked(buf []byte, src, tag int) Handle {
	if err := c.checkState(src == AnySource); err != nil {
		return c.e.failedRecv(c, reqRecv, src, tag, err)
	}
	return Irecv[Unaware](c, buf, src, tag)
}

func (c *Comm) recvSlow(buf []byte, src, tag int) (Status, error) {
	st, err := c.e.waitBlocking(c.irecvSlow(buf, src, tag))
	return st, c.notifyHandler(err)
}

// Irecv posts a receive into buf. Errors are the request's. A receive from AnySource may return
// ft.ErrProcFailedPending, in which case it has not ended.
func Irecv[M Mode](c *Comm, buf []byte, src, tag int) Handle {
	if checked[M]() && c.state.Load() != 0 {
		return c.irecvChecked(buf, src, tag)
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

// IrecvElements is Irecv whose Status counts elements of size bytes. A message that is no whole number
// of them ends with ft.ErrArgument.
//
// Precondition: 0 < size <= 16.
func IrecvElements[M Mode](c *Comm, buf []byte, src, tag, size int) Handle {
	l := c.link(src)
	if checked[M]() && c.state.Load() != 0 || l == nil || uint(tag) > MaxTag {
		h := Irecv[M](c, buf, src, tag)
		c.e.CountElements(h, size)
		return h
	}
	e := c.e
	e.p.Lock()
	r := e.newRequest(c, reqRecv, buf)
	r.special = uint8(size)
	h := Handle{r, r.gen}
	e.post(r, l.peer, c.ctx|uint64(tag))
	e.p.Unlock()
	return h
}

// CountElements makes the Status of a receive count elements, as IrecvElements does. Nothing must
// have waited for the receive yet.
func (e *Engine) CountElements(h Handle, size int) {
	e.p.Lock()
	defer e.p.Unlock()
	if w := h.wrapping(); w != nil {
		finish, c := w.finish, w.inner.r.comm
		w.finish = func(st Status, err error) (Status, error) {
			st, err = finish(st, err)
			count, odd := elements(st.Count, size)
			if st.Count = count; odd != nil && err == nil {
				err = c.opError(reqRecv, st.Source, st.Tag, 0, odd)
			}
			return st, err
		}
	} else {
		h.r.special |= uint8(size)
	}
}

// irecvSlow handles receives with wildcards, and the first one from a rank.
func (c *Comm) irecvSlow(buf []byte, src, tag int) Handle {
	key, err := c.source(src, tag)
	if err != nil {
		return c.e.failedRecv(c, reqRecv, src, tag, err)
	}
	e := c.e
	e.p.Lock()
	defer e.p.Unlock()
	if c.isNullLocked(src) {
		return e.nullRecv(c)
	}
	r := e.newRequest(c, reqRecv, buf)
	h := Handle{r, r.gen}
	if src == AnySource && c.hasUnacknowledged() {
		e.p.Progress() // a matching message may have arrived
	}
	e.post(r, key, c.ctx|uint64(uint32(tag)))
	if src == AnySource && !r.Done() && r.from == proc.None && c.hasUnacknowledged() {
		r.suspend()
	}
	return h
}

// failedRecv returns a receive or probe that has ended with a cause.
func (e *Engine) failedRecv(c *Comm, kind reqKind, src, tag int, cause error) Handle {
	return e.failed(c, kind, c.opError(kind, src, tag, 0, cause))
}

// source checks the arguments of a receive or probe and returns the source to match. It connects to
// a named rank, so that its end is noticed. See isNullLocked for null ranks.
func (c *Comm) source(src, tag int) (proc.ID, error) {
	switch {
	case uint(tag) > MaxTag && tag != AnyTag:
		return 0, badTag(tag)
	case src == AnySource || src == ProcNull:
		return proc.None, nil
	case uint(src) >= uint(c.peers.size):
		return 0, c.badRank(src)
	case c.link(src) != nil:
		return c.peers.proc(src), nil
	}
	l, err := c.connect(src)
	if err != nil {
		return 0, c.connectError(src, err)
	}
	return l.peer, nil
}

// post matches r with an unexpected message, or posts it.
func (e *Engine) post(r *Request, src proc.ID, imm uint64) {
	r.src, r.imm, r.from = src, imm, proc.None
	if collective(imm) && e.mismatched(r) {
		return
	}
	if m := e.unexpected.match(src, imm); m != nil {
		e.take(r, m)
		return
	}
	if err := r.comm.matchImpossible(src); err != nil {
		r.fail(err)
		e.giveUpOwn(r)
		return
	}
	if collective(imm) && r.mustInquire() && !e.mayWait(e.findLink(src), r) {
		return
	}
	e.posted.add(r)
}

// matchImpossible is the error of an operation that must not wait for a message from src; else nil.
func (c *Comm) matchImpossible(src proc.ID) error {
	if err := c.check(); err != nil {
		return err
	}
	if src == proc.None {
		return c.wildcardImpossible()
	}
	ep := c.e.p.Known(src)
	if ep == nil || ep.State == progress.Alive {
		return nil
	}
	return c.peerEndedError(c.e.linkFor(ep))
}

// take matches a receive with an unexpected message.
func (e *Engine) take(r *Request, m *message) {
	r.matched(m.from, m.imm)
	if m.rts {
		key := append(r.region.Key[:0], m.region.Key...) // the message keeps its own memory
		r.total, r.region, r.remote = m.total, m.region, m.remote
		r.region.Key = key
		l := m.link
		l.waiting--
		e.unexpected.release(m)
		e.fetch(l, r)
		return
	}
	e.unkept(m)
	copy(r.buf, m.data)
	if m.got == m.total {
		r.received(m.total)
		e.unexpected.release(m)
		return
	}
	if !m.placed {
		e.unexpected.dropData(m)
	}
	m.req = r
	m.link.addActive(r)
}

func (e *Engine) onEager(from proc.ID, imm uint64, payload []byte) {
	r := e.posted.match(from, imm)
	if r == nil {
		m := e.newUnexpected(from, imm, len(payload))
		if m == nil {
			return
		}
		m.data = append(m.data, payload...)
		m.got = len(payload)
		e.addUnexpected(m)
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

// onFirst starts a message in fragments.
func (e *Engine) onFirst(from proc.ID, imm uint64, payload []byte) {
	l, total, ok := e.sender(from, payload)
	if !ok || l.in != nil {
		e.refused++
		return
	}
	r := e.posted.match(from, imm)
	if r == nil {
		if l.in = e.newUnexpected(from, imm, total); l.in != nil {
			e.addUnexpected(l.in)
		}
		return
	}
	l.in = e.unexpected.newMessage()
	l.in.from, l.in.imm, l.in.total, l.in.link, l.in.req = from, imm, total, l, r
	r.matched(from, imm)
	l.addActive(r)
}

// sender checks a First frame and returns its sender's link and the message's length.
func (e *Engine) sender(from proc.ID, payload []byte) (*link, int, bool) {
	total, ok := decodeLength(payload)
	ep := e.p.Lookup(from)
	if !ok || ep == nil || total == 0 || total > LongestEager {
		return nil, 0, false
	}
	return e.linkFor(ep), total, true
}

// onFrag handles a fragment: of the eager message that is arriving, or of the streamed one that imm
// identifies.
func (e *Engine) onFrag(from proc.ID, imm uint64, payload []byte) {
	l := e.findLink(from)
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

// arrived counts n more bytes of the arriving message, and completes it.
func (e *Engine) arrived(l *link, n int) {
	m := l.in
	m.got += n
	if m.got < m.total {
		return
	}
	l.in, m.placed = nil, false
	if r := m.req; r != nil {
		l.removeActive(r)
		r.received(m.total)
	}
	if m.req != nil || m.orphan {
		e.unexpected.release(m)
	}
}
