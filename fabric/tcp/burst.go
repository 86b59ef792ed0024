package tcp

import (
	"runtime"

	"github.com/banyan-hpc/banyan/internal/flusher"
)

// A burst is a series of short frames to one peer, with no other call of this provider in between.
// Its first frame is written at once. The others stay in the outbox until the next call that polls,
// prepares to sleep or sends to another peer, or until there are burstBytes of them: one system call
// writes them all. If the process computes instead, the flusher, a goroutine, writes them.
//
// Inside Poll the rest is written when it ends.

const (
	// burstFrame is the length from which a payload does not wait for others: the system call costs less than the copy.
	burstFrame = 40 << 10
	// burstBytes bounds the frames that wait.
	burstBytes = 96 << 10
)

// startFlusher has a goroutine write the frames of a burst of a computing process. Where Go has one processor, which
// the application may compute on, there are no bursts.
func (p *Provider) startFlusher() {
	if runtime.GOMAXPROCS(0) >= 2 {
		p.flush = flusher.New(p.cfg.Shared, p.flushBurst)
	}
}

// flushBurst writes the frames of a burst, and reports whether the socket accepted all. The provider's caller handles
// errors. The flusher calls it.
func (p *Provider) flushBurst() bool {
	c := p.burst
	for c.out.unsent() {
		n := c.out.gather(p.burstOut.pieces[:])
		sent, errno := p.burstOut.send(c.fd, n)
		c.out.wrote(sent)
		if errno != 0 {
			return false
		}
	}
	return true
}

// joinBurst adds a frame to the burst of the last one; false: it must be written at once.
func (c *Conn) joinBurst(h *header, payload []byte) bool {
	p, f := c.p, c.p.flush
	if f == nil || c.state != up || p.departing || !c.out.room(len(payload)) {
		return false
	}
	switch {
	case p.corked == c:
		if p.sink == nil {
			f.Lock()
			c.addShort(h, payload)
			f.Joined()
		} else {
			c.addShort(h, payload)
		}
		if p.waiting += headerBytes + len(payload); p.waiting >= burstBytes {
			p.uncork()
			p.sent = c
		}
		return true
	case c.out.unsent():
		return false
	}
	c.addShort(h, payload)
	p.corked, p.waiting = c, headerBytes+len(payload)
	if p.sink == nil {
		p.burst = c
		f.Begin()
	}
	return true
}

func (c *Conn) addShort(h *header, payload []byte) {
	h.taken = c.ack()
	c.add(h, len(payload))
	c.out.append(payload)
}

// endBurst writes the frames that wait. Every call that polls, or changes a connection, makes it first.
func (p *Provider) endBurst() {
	p.sent = nil
	if p.corked != nil {
		p.uncork()
	}
}

func (p *Provider) uncork() {
	c := p.corked
	p.corked = nil
	if p.flush.Waits() {
		p.flush.End()
		p.burst = nil
	}
	if c.state == up {
		c.flush()
		c.credit()
		c.ackIfDue() // no acknowledgement could be sent before these frames
	}
}
