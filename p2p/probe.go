package p2p

import (
	"fmt"

	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
)

// Probe waits until an unreceived message from src (or AnySource) with a tag (or AnyTag) has
// arrived, and returns its Status without receiving it. A message whose data are still arriving
// counts with its full length. Errors as of Recv.
func Probe[M Mode](c *Comm, src, tag int) (Status, error) {
	m, _, err := probe[M](c, reqProbe, src, tag, true)
	return m.st, err
}

// Iprobe makes progress and reports whether Probe would return at once.
func Iprobe[M Mode](c *Comm, src, tag int) (Status, bool, error) {
	m, found, err := probe[M](c, reqProbe, src, tag, false)
	return m.st, found, err
}

// Mprobe is Probe with the message removed from matching: only the returned Message receives it, so
// no other goroutine can receive it in between.
func Mprobe[M Mode](c *Comm, src, tag int) (Message, error) {
	m, _, err := probe[M](c, reqClaim, src, tag, true)
	return m, err
}

// MprobeFor is Mprobe for a Borrow, which errors name.
func MprobeFor[M Mode](c *Comm, src, tag int) (Message, error) {
	m, _, err := probe[M](c, reqBorrow, src, tag, true)
	return m, err
}

// Improbe makes progress and does the same as Mprobe if there is a message; otherwise it returns
// false.
func Improbe[M Mode](c *Comm, src, tag int) (Message, bool, error) {
	return probe[M](c, reqClaim, src, tag, false)
}

// Message is a message that a matched probe has removed from matching. It is received once; until
// then its bytes stay with this process or its sender.
type Message struct {
	comm *Comm
	m    *message // nil when received, or from ProcNull
	st   Status
}

// errReceived is the error of a second receive.
var errReceived = fmt.Errorf("%w: the probed message has been received", ft.ErrArgument)

// Status describes the message.
func (g *Message) Status() Status { return g.st }

// Recv receives the message into buf. Errors: ft.ErrTruncate; ft.ErrProcFailed if the sender failed
// before the message was complete; ft.ErrArgument if it has been received before; ft.ErrRevoked; ft.ErrClosed.
func (g *Message) Recv(buf []byte) (Status, error) {
	if g.st.Source == ProcNull {
		return g.st, nil
	}
	return g.comm.e.Wait(g.Irecv(buf))
}

// Irecv starts to receive the message into buf. Errors are the request's.
func (g *Message) Irecv(buf []byte) Handle {
	e := g.comm.e
	e.p.Lock()
	defer e.p.Unlock()
	if g.st.Source == ProcNull {
		return e.nullRecv(g.comm)
	}
	r := e.newRequest(g.comm, reqRecv, buf)
	r.src, r.imm, r.from = g.comm.peers.Proc(g.st.Source), g.comm.ctx|uint64(g.st.Tag), proc.None
	h := Handle{r, r.gen}
	switch m := g.m; {
	case m == nil:
		r.fail(errReceived)
	case g.comm.state.Load()&stateRevoked != 0:
		g.m = nil // the revocation discarded it
		r.fail(g.comm.revokedError())
	default:
		err := g.lost()
		g.m = nil
		e.unexpected.unclaim(m)
		if err != nil {
			r.matched(m.from, m.imm)
			r.fail(err)
			e.discard(m)
		} else {
			e.take(r, m)
		}
	}
	return h
}

// lost is the error of a message that will not come any more, or nil. Precondition: it has not been received.
func (g *Message) lost() error {
	switch m, e := g.m, g.comm.e; {
	case e.closed:
		return e.closedErr
	case (m.rts || m.got < m.total) && m.link.ep.State != progress.Alive:
		return g.comm.peerEndedError(m.link)
	}
	return nil
}

// probe looks for a message, removes it from matching unless kind is reqProbe, and waits for one if
// wait is set.
func probe[M Mode](c *Comm, kind reqKind, src, tag int, wait bool) (Message, bool, error) {
	if checked[M]() && c.state.Load() != 0 {
		if err := c.checkState(src == AnySource); err != nil {
			return Message{}, false, c.opError(kind, src, tag, 0, err)
		}
	}
	key, err := c.source(src, tag)
	if err != nil {
		return Message{}, false, c.opError(kind, src, tag, 0, err)
	}
	e := c.e
	e.p.Lock()
	defer e.p.Unlock()
	if c.isNullLocked(src) {
		return Message{comm: c, st: nullStatus}, true, nil
	}
	r := e.newRequest(c, kind, nil)
	r.src, r.imm, r.from = key, c.ctx|uint64(uint32(tag)), proc.None
	if e.tryProbe(r); wait && !r.Done() {
		e.probing.push(r)
		e.p.Wait(&r.Completion)
	}
	g, found, err := Message{comm: c, m: r.claimed, st: r.status()}, r.Done(), r.err
	e.recycle(r)
	if err != nil || !found {
		g = Message{}
	}
	return g, found && err == nil, err
}

// Probing is the kind of probe that BeginProbe begins.
type Probing = reqKind

// The calls that probe. TakeMessage ends an Mprobe, and that of a Borrow.
const (
	ForProbe  = reqProbe
	ForMprobe = reqClaim
	ForBorrow = reqBorrow
)

// BeginProbe starts a probe as a request. Errors are the request's.
func BeginProbe[M Mode](c *Comm, src, tag int, kind Probing) Handle {
	if checked[M]() && c.state.Load() != 0 {
		if err := c.checkState(src == AnySource); err != nil {
			return c.e.failedRecv(c, kind, src, tag, err)
		}
	}
	key, err := c.source(src, tag)
	if err != nil {
		return c.e.failedRecv(c, kind, src, tag, err)
	}
	e := c.e
	e.p.Lock()
	defer e.p.Unlock()
	if c.isNullLocked(src) {
		return e.nullRecv(c)
	}
	r := e.newRequest(c, kind, nil)
	r.src, r.imm, r.from = key, c.ctx|uint64(uint32(tag)), proc.None
	if e.tryProbe(r); !r.Done() {
		e.probing.push(r)
	}
	return Handle{r, r.gen}
}

// TakeMessage ends a complete Mprobe and returns its message. Precondition: the lock is held.
func (e *Engine) TakeMessage(h Handle) (Message, error) {
	g := Message{comm: h.r.comm, m: h.r.claimed}
	var err error
	if g.st, err = e.Take(h); err != nil {
		return Message{}, err
	}
	return g, nil
}

// tryProbe completes a probe if that is possible at once: with a message or with an error.
func (e *Engine) tryProbe(r *Request) {
	m := e.unexpected.find(r.src, r.imm)
	if m == nil {
		e.p.Progress()
		m = e.unexpected.find(r.src, r.imm)
	}
	if m != nil {
		e.completeProbe(r, m)
		return
	}
	err := r.comm.matchImpossible(r.src)
	if err == nil && r.src == proc.None && r.comm.hasUnacknowledged() {
		err = r.comm.unacknowledgedError(false)
	}
	if err != nil {
		r.fail(err)
	}
}

// completeProbe completes a probe with a message, and removes it from matching for a matched probe.
func (e *Engine) completeProbe(r *Request, m *message) {
	r.matched(m.from, m.imm)
	r.count = m.total
	if r.kind != reqProbe {
		e.unexpected.claim(m)
		r.claimed = m
	}
	r.Finish()
}

// addUnexpected adds an unmatched message to the unexpected queue and offers it to the waiting
// probes, in their order.
func (e *Engine) addUnexpected(m *message) {
	if e.unwanted(m.imm) {
		e.discard(m)
		return
	}
	if collective(m.imm) {
		if r := e.posted.conflict(m.from, m.imm); r != nil {
			e.failMismatch(r, m)
			return
		}
	}
	e.unexpected.add(m)
	for r := e.probing.first; r != nil && !m.claimed; {
		next := r.next
		if m.matches(r.src, r.imm) {
			e.probing.remove(r)
			e.completeProbe(r, m)
		}
		r = next
	}
}
