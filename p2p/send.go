package p2p

import (
	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/progress"
)

// Send sends buf to rank dst with a tag and returns when buf may be reused.
// Tags are 0 … MaxTag. Errors: ft.ErrArgument, ft.ErrProcFailed, ft.ErrRevoked,
// ft.ErrDeparted.
func Send[M Mode](c *Comm, buf []byte, dst, tag int) error {
	if checked[M]() && c.state.Load() != 0 {
		return c.sendChecked(buf, dst, tag)
	}
	if l := c.link(dst); l != nil && uint(tag) <= MaxTag {
		e := c.e
		e.p.Lock()
		imm := c.ctx | uint64(tag)
		l.budget -= len(buf) + perMessage
		if l.budget >= 0 &&
			(len(buf) <= l.small && l.ep.TryShort(fabric.ClassEager, imm, buf) || l.tryFrame(imm, buf)) {
			e.p.Unlock()
			return nil
		}
		l.budget += len(buf) + perMessage
		return c.sendRest(l, buf, dst, tag)
	}
	return c.sendSlow(buf, dst, tag)
}

// sendRest is Send of a message that cannot leave at once in one frame. Precondition: the lock is held; sendRest
// releases it.
func (c *Comm) sendRest(l *link, buf []byte, dst, tag int) error {
	if len(buf) > l.small && l.limit == 0 && l.ep.ReadInPlace(buf) {
		if r := c.e.announceNow(c, l, buf, c.ctx|uint64(tag), standard); r != nil {
			return c.e.waitAnnounced(r)
		}
	}
	c.e.p.Unlock()
	return c.sendSlow(buf, dst, tag)
}

// Isend starts to send buf, which must not change until the request is complete. Errors are the
// request's, also those of wrong arguments.
func Isend[M Mode](c *Comm, buf []byte, dst, tag int) Handle {
	if checked[M]() && c.state.Load() != 0 {
		return c.isendChecked(buf, dst, tag)
	}
	if l := c.link(dst); l != nil && uint(tag) <= MaxTag {
		e := c.e
		e.p.Lock()
		imm := c.ctx | uint64(tag)
		l.budget -= len(buf) + perMessage
		if l.budget >= 0 &&
			(len(buf) <= l.small && l.ep.TryShort(fabric.ClassEager, imm, buf) || l.tryFrame(imm, buf)) {
			e.p.Unlock()
			return Handle{}
		}
		l.budget += len(buf) + perMessage
		e.p.Unlock()
	}
	return c.isendSlow(buf, dst, tag)
}

// IsendAhead is Isend of a message that its receiver may take late, while this process has other things to do. Where
// processes share cores a longer one goes eagerly: this process does not wait until it is the receiver's turn.
func IsendAhead[M Mode](c *Comm, buf []byte, dst, tag int) Handle {
	const often = 16 << 10 // up to this length messages are eager anyway, in one frame
	if len(buf) <= often || !c.e.p.Crowded() || c.state.Load() != 0 {
		return Isend[M](c, buf, dst, tag)
	}
	return c.begin(buf, dst, tag, ahead)
}

// sendChecked is Send with a state word that is not zero. It is a separate function so that the
// others keep their arguments in registers.
func (c *Comm) sendChecked(buf []byte, dst, tag int) error {
	if err := c.checkState(false); err != nil {
		return c.notifyHandler(c.opError(reqSend, dst, tag, len(buf), err))
	}
	return Send[Unaware](c, buf, dst, tag)
}

func (c *Comm) isendChecked(buf []byte, dst, tag int) Handle {
	if err := c.checkState(false); err != nil {
		return c.e.Failed(c, c.opError(reqSend, dst, tag, len(buf), err))
	}
	return Isend[Unaware](c, buf, dst, tag)
}

func (c *Comm) sendSlow(buf []byte, dst, tag int) error {
	_, err := c.e.Wait(c.isendSlow(buf, dst, tag))
	return c.notifyHandler(err)
}

// isendSlow handles standard sends that do not leave at once in one frame.
func (c *Comm) isendSlow(buf []byte, dst, tag int) Handle {
	if l := c.sparseLink(dst); l != nil && uint(tag) <= MaxTag && c.sendAtOnce(l, buf, tag) {
		return Handle{}
	}
	return c.begin(buf, dst, tag, standard)
}

// sendAtOnce is the first attempt of Send in an engine that is not sparse.
func (c *Comm) sendAtOnce(l *link, buf []byte, tag int) bool {
	e := c.e
	e.p.Lock()
	defer e.p.Unlock()
	l.budget -= len(buf) + perMessage
	if l.budget >= 0 && l.tryFrame(c.ctx|uint64(tag), buf) {
		return true
	}
	l.budget += len(buf) + perMessage
	return false
}

// manner is the mode of a send. Synchronous sends and loans are announced, with any length.
type manner uint8

const (
	standard manner = iota
	ahead           // see IsendAhead
	synchronous
	lent // see Lend
)

// begin starts a send.
func (c *Comm) begin(buf []byte, dst, tag int, how manner) Handle {
	l, err := c.target(dst, tag)
	if err != nil {
		return c.e.Failed(c, c.opError(reqSend, dst, tag, len(buf), err))
	}
	if l == nil {
		return Handle{}
	}
	return c.beginTo(l, buf, tag, how)
}

// beginTo is begin for a link.
func (c *Comm) beginTo(l *link, buf []byte, tag int, how manner) Handle {
	e := c.e
	e.p.Lock()
	defer e.p.Unlock()
	if l.spareChunk == 0 && l.budget < len(buf)+perMessage {
		e.p.Progress() // a grant may have arrived
	}
	r := e.newRequest(c, reqSend, buf)
	h := Handle{r, r.gen}
	imm := c.ctx | uint64(tag)
	r.imm, r.link = imm, l
	switch err := c.check(); {
	case err != nil:
		r.fail(err)
	case l.ep.State != progress.Alive:
		r.fail(c.peerEndedError(l))
		e.giveUpOwn(r)
	case c.state.Load() != 0 && r.mustInquire() && !e.mayWait(l, r):
	case l.held != nil || !e.issue(l, r, imm, how):
		e.hold(l, r, imm, how)
	}
	if e.pump(l) > 0 && l.first != nil {
		e.p.Kick() // a sleeping goroutine does not wait for this credit yet
	}
	return h
}

// target checks a send's arguments and returns the link; nil for a null rank.
func (c *Comm) target(dst, tag int) (*link, error) {
	switch {
	case uint64(tag) > MaxTag:
		return nil, badTag(tag)
	case dst == ProcNull:
		return nil, nil
	case uint(dst) >= uint(c.peers.size):
		return nil, c.badRank(dst)
	case c.isNull(dst):
		return nil, nil
	}
	l, err := c.connect(dst)
	if err != nil {
		return nil, c.connectError(dst, err)
	}
	return l, nil
}

// Failed returns a request that has ended with the error of an operation.
func (e *Engine) Failed(c *Comm, err error) Handle { return e.failed(c, reqSend, err) }

func (e *Engine) failed(c *Comm, kind reqKind, err error) Handle {
	e.p.Lock()
	defer e.p.Unlock()
	r := e.newRequest(c, kind, nil)
	r.err = err
	r.Finish()
	return Handle{r, r.gen}
}
