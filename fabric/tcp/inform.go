package tcp

import (
	"time"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// maxFinalReads bounds how many batches are read of a peer whose end is known from elsewhere: if it
// lives nevertheless, it may keep sending.
const maxFinalReads = 16

// Inform implements fabric.Provider. A peer that lives finds its connection closed, and learns why
// when it reconnects: see rejected.
func (p *Provider) Inform(peer proc.ID, cause proc.Cause) {
	if p.departing && p.sink == nil { // the acceptor reads it, and Poll is not the caller
		p.mu.Lock()
		defer p.mu.Unlock()
	}
	switch c := p.conns[peer]; {
	case p.closed:
	case c == nil:
		p.gone[peer] = true
	case c.state != ended && c.informedCause == nil:
		c.informedCause = &cause
		p.informed = append(p.informed, c)
	}
}

// endInformed ends the connections to peers reported by Inform, after their frames that have
// arrived. The acceptor of a call sends frames right behind its verdict, so the verdict, which may
// still be in the socket, is read first.
func (p *Provider) endInformed(s *fabric.Sink) int {
	informed := p.informed
	p.informed = nil
	for _, c := range informed {
		if c.state == dialling && c.dial.stage == proofSent {
			c.advance(time.Now())
		}
		for n := 0; c.state == up && n < maxFinalReads && c.receive(s) > 0; n++ {
		}
		c.reportEnd(*c.informedCause)
	}
	return len(informed)
}
