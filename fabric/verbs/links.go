//go:build cgo

package verbs

import (
	"crypto/rand"
	"fmt"
)

// Queue pairs of iWARP are connected over TCP, by the connection manager. Of two processes the one with the lower number
// connects, to the address and port in the other's note, and shows the token from there: the other one accepts no connection
// without. A pair is joined when it is connected and the peer's note has come.
//
// Three things differ. A send or a write is complete when this adapter has it, so a read without bytes follows each that asks for a
// completion: see device.send. What a read fills is written by the peer, so all memory is registered for that, with
// keys that only reads show. And TCP tries for minutes before it gives up: see watch.go.

// pollLinks handles the changes of connections.
func (p *Provider) pollLinks() (n int) {
	for _, port := range p.ports {
		for ch, ok := port.d.next(); ok; ch, ok = port.d.next() {
			n++
			if x := port.rails[ch.qp]; x != nil {
				x.changes(p, ch.err)
			} else if c := port.lanes[ch.qp]; c != nil {
				c.changes(ch.err)
			}
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
	x.withdraw(p, why)
}

// draw draws the random parts: the number of the first packet, and the token.
func (e *end) draw() {
	var b [3]byte
	_, _ = rand.Read(b[:]) // never fails: it ends the program instead
	e.psn = uint32(b[0])<<16 | uint32(b[1])<<8 | uint32(b[2])
	_, _ = rand.Read(e.token[:])
}
