//go:build cgo

package verbs

import (
	"crypto/rand"
	"errors"
	"fmt"
	"time"
)

// Queue pairs of iWARP are connected over TCP, by the connection manager. Of two processes the one with the lower number
// connects, to the address and port in the other's note, and shows the token from there: the other one accepts no connection
// without. A pair is joined when it is connected and the peer's note has come.
//
// Three things differ. A send or a write is complete when this adapter has it, so a read without bytes follows each that asks for a
// completion: see device.send. What a read fills is written by the peer, so all memory is registered for that, with
// keys that only reads show. And TCP tries for minutes before it gives up, so this process looks at what has no answer.

// pollLinks handles the changes of connections, and looks for work without an answer.
func (p *Provider) pollLinks() (n int) {
	for _, port := range p.reading.ports {
		for ch, ok := port.d.next(); ok; ch, ok = port.d.next() {
			n++
			if x := port.pairs[ch.qp]; x != nil {
				x.changes(p, ch.err)
			} else if c := p.byPair[ch.qp]; c != nil && port.n == 0 {
				c.changes(ch.err)
			}
		}
	}
	for _, c := range p.conns {
		if c.pair != (pair{}) && !c.off {
			c.lookAfter()
		}
	}
	return n
}

// changes notes that the pair is connected, or is not any more.
func (c *Conn) changes(err error) {
	switch {
	case err != nil:
		c.p.empty() // it may have departed
		c.fails(err)
	case !c.linked:
		if c.linked = true; c.met {
			c.meets()
		}
	}
}

func (x *rail) changes(p *Provider, err error) {
	switch {
	case err != nil:
		x.leaves(p, err)
	case !x.linked:
		if x.linked = true; x.met {
			x.meets(p)
		}
	}
}

// leaves frees the pair of a rail, whose adapter may not report the reads under way.
func (x *rail) leaves(p *Provider, why error) {
	why = fmt.Errorf("verbs: reading: %w", why)
	p.endBatch()
	x.breaks(p, why)
	x.withdraw(&p.reading, why)
}

var errNoAnswer = errors.New("verbs: no answer from the peer's adapter")

// lookAfter gives the lane, or a rail, up whose work has no answer for too long. Work without a completion gets one.
func (c *Conn) lookAfter() {
	p := c.p
	waits := c.testing || c.sending && len(c.out) > 0
	if c.unanswered.lasts(waits, c.first, p.cfg.Timeout) {
		c.fails(errNoAnswer)
		return
	}
	if c.quiet > 0 && c.unanswered.lasts(waits, c.first, p.cfg.Timeout/4) {
		p.endBatch()
		p.d.probe(c.pair, c.next-1)
		c.quiet = 0
		p.roundTrip(1)
	}
	if c.reads == nil {
		return
	}
	for _, x := range c.reads.rails {
		if busy := x.joined && len(x.pieces) > 0; x.unanswered.lasts(busy, x.oldest(), p.cfg.Timeout) {
			x.leaves(p, errNoAnswer)
		}
	}
}

// oldest is the number of the oldest read under way.
func (x *rail) oldest() uint64 {
	if len(x.pieces) == 0 {
		return 0
	}
	return x.pieces[0].id
}

// watch is since when work has no answer.
type watch struct {
	oldest uint64
	since  time.Time // zero: nothing waits
}

// lasts reports whether the same piece of work, the oldest, has waited for longer than the limit.
func (w *watch) lasts(waits bool, oldest uint64, limit time.Duration) bool {
	switch now := time.Now(); {
	case !waits:
		w.since = time.Time{}
	case w.since.IsZero() || oldest != w.oldest:
		w.oldest, w.since = oldest, now
	default:
		return now.Sub(w.since) > limit
	}
	return false
}

// draw draws the random parts: the number of the first packet, and the token.
func (e *end) draw() {
	var b [3]byte
	_, _ = rand.Read(b[:]) // never fails: it ends the program instead
	e.psn = uint32(b[0])<<16 | uint32(b[1])<<8 | uint32(b[2])
	_, _ = rand.Read(e.token[:])
}
