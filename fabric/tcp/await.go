package tcp

import "github.com/banyan-hpc/banyan/fabric"

// Results of Await without a received message.
const (
	nothingYet = fabric.NotYet
	forPoll    = fabric.NotYet - 1
)

// Await implements fabric.Awaiter: a shortcut past Poll to the next frame of the connection that
// delivered last.
//
// Another goroutine may sleep at the bell meanwhile. The watcher rings for what is in the sockets, so
// everything outside Poll that reads something for Poll, or ends the watch of a socket, rings itself.
func (c *Conn) Await(class fabric.Class, imm uint64, buf []byte, looks int) int {
	p, in := c.p, &c.in
	p.endBurst()
	if p.recent != c || p.idlePolls >= recentPolls || c.state != up || in.placed || in.r != in.w || len(p.blocked) > 0 {
		return forPoll
	}
	for range looks {
		p.idlePolls++
		n, errno := recvBytes(c.fd, p.inbox[:window])
		switch {
		case errno == 0 && n > 0:
			return c.accept(class, imm, buf, n)
		case errno == 0: // Poll sees the end of the stream, too
			return forPoll
		}
		pauseBriefly()
	}
	return nothingYet
}

// accept receives the first frame of the got bytes in the provider's buffer, if it is the awaited one
// and nothing else has come.
func (c *Conn) accept(class fabric.Class, imm uint64, buf []byte, got int) int {
	p, in := c.p, &c.in
	p.idlePolls = 0
	p.countRecent(c)
	if got >= headerBytes {
		h, ok := parseHeader(p.inbox)
		n := int(h.length)
		if ok && h.kind == kind(class) && h.imm == imm && n <= len(buf) && got == headerBytes+n && !in.again &&
			c.checkHeader(&h) {
			copy(buf, p.inbox[headerBytes:got])
			c.count(&h)
			c.ackIfDue()
			return n
		}
	}
	in.buf, in.r, in.w = p.inbox, 0, got
	c.ownBuffer()
	p.undelivered = c
	p.cfg.Ring()
	return forPoll
}
