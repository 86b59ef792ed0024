package tcp

import (
	"time"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// maxFinalReads bounds how many times a batch is read of a peer whose end is known from
// elsewhere: one that lives, for all that, may go on sending.
const maxFinalReads = 16

// Inform implements fabric.Provider. A peer that lives finds its connection closed,
// and learns why when it makes it again: see banned.
func (p *Provider) Inform(peer proc.ID, cause proc.Cause) {
	if p.departing && p.sink == nil { // the doorman looks at it, and Poll does not call
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

// endInformed ends the connections to peers that have ended by what Inform has said,
// after what has come of them. A peer that was dialled sends frames right behind its verdict, so the
// verdict is read first, which may still be in the socket.
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
