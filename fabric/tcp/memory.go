package tcp

import (
	"slices"
	"time"
)

// The memory of a connection follows its use, so that hundreds of connections cost little: a rank
// exchanges short messages with most of its peers, and long ones with some.
//
// A connection reads into the provider's buffer, and moves undelivered bytes to a buffer of its own
// when another connection may read. Its outbox grows with the frames that it keeps, and is freed
// after a time without frames.

const (
	// idleRing is the longest ring of an outbox that an idle connection keeps.
	idleRing = 8 << 10
	// idleTime is how long a longer one is kept without use.
	idleTime = time.Second
	// freeInboxes bounds the buffers of incomplete frames that are kept for the next ones.
	freeInboxes = 4
)

// grows notes that a connection has more memory than an idle one keeps.
func (p *Provider) grows(c *Conn) {
	c.grown, c.sentThen = true, c.out.next
	p.grown = append(p.grown, c)
	p.alarm(time.Now().Add(idleTime))
}

// shrinkIdle takes memory back from connections that have not used it since the last call.
func (p *Provider) shrinkIdle(now time.Time) {
	if now.Before(p.shrinkDue) {
		return
	}
	p.shrinkDue = now.Add(idleTime)
	p.grown = slices.DeleteFunc(p.grown, func(c *Conn) bool {
		c.grown = c.out.next != c.sentThen
		c.sentThen = c.out.next
		if !c.grown {
			c.out.shrink()
		}
		return !c.grown
	})
}

// ownBuffer moves undelivered bytes from the provider's buffer to one of the connection, and frees
// that when it is empty.
func (c *Conn) ownBuffer() {
	in, p := &c.in, c.p
	switch {
	case in.r == in.w && in.own:
		if len(p.inboxes) < freeInboxes {
			p.inboxes = append(p.inboxes, in.buf)
		}
		fallthrough
	case in.r == in.w:
		in.buf, in.own, in.r, in.w = nil, false, 0, 0
	case !in.own:
		buf := p.takeInbox()
		in.w = copy(buf, in.buf[in.r:in.w])
		in.buf, in.own, in.r = buf, true, 0
	}
}

func (p *Provider) takeInbox() []byte {
	last := len(p.inboxes) - 1
	if last < 0 {
		return make([]byte, inboxBytes)
	}
	buf := p.inboxes[last]
	p.inboxes = p.inboxes[:last]
	return buf
}

// takeSpare returns a buffer for a frame of n bytes for which the engine has no place, giveSpare
// returns it. One is kept.
func (p *Provider) takeSpare(n int) []byte {
	if n > cap(p.spare) {
		return make([]byte, n)
	}
	b := p.spare[:n]
	p.spare = nil
	return b
}

func (p *Provider) giveSpare(b []byte) {
	if cap(b) > cap(p.spare) {
		p.spare = b
	}
}
