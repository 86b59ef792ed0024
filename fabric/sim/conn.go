package sim

import (
	"fmt"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// conn is fabric.Conn: the outgoing flow, as its owner sees it.
type conn flow

func (c *conn) Peer() proc.ID { return c.to.id }

func (c *conn) Caps() fabric.Caps {
	cfg := &c.from.sim.cfg
	return fabric.Caps{Inline: cfg.Inline, MaxFrame: cfg.MaxFrame, Eager: cfg.Eager, Get: cfg.Get}
}

// dead reports that the peer's end is known here or that the connection is invalidated: nothing is
// put on the wire.
func (f *flow) dead() bool { return f.back.shut || f.back.invalidated }

// admits reports whether TrySend takes a frame. While evidence of the peer's end waits to be polled
// it does not, so that a process that only sends comes to poll; after that, and for an invalidated
// peer, it takes frames and drops them.
func (f *flow) admits() bool {
	switch e := &f.from.end; {
	case e.departed || e.closed:
		return false
	case f.dead():
		return f.back.polled || f.back.invalidated
	default:
		return f.hasCredit()
	}
}

func (c *conn) TrySend(class fabric.Class, imm uint64, payload []byte) bool {
	f := (*flow)(c)
	p, s := f.from, f.from.sim
	p.step()
	if class == 0 || class >= fabric.NumClasses || len(payload) > s.cfg.MaxFrame {
		panic(fmt.Sprintf("sim: TrySend of class %d with %d bytes; MaxFrame is %d", class, len(payload), s.cfg.MaxFrame))
	}
	if !f.admits() {
		p.settle() // earlier events may have brought credit
		if !f.admits() {
			c.refuseFrame(class, len(payload))
			return false
		}
	}
	f.used++
	p.clock += f.link.SendOverhead + Picos(len(payload))*s.cfg.CPU.PerByte
	p.settle()
	p.count.Sent++
	p.count.SentBytes += uint64(len(payload))
	if f.dead() {
		f.used--
		s.record(traceDrop, p.id, f.to.id, class, len(payload))
		return true
	}
	s.record(traceSend, p.id, f.to.id, class, len(payload))
	fr := s.frames.get(len(payload))
	fr.flow, fr.class, fr.imm = f, class, imm
	copy(fr.payload, payload)
	f.transmit(fr)
	return true
}

// refuseFrame refuses a frame. It costs time, so that a loop on TrySend alone ends.
func (c *conn) refuseFrame(class fabric.Class, size int) {
	p := c.from
	p.count.Refused++
	p.sim.record(traceRefuse, p.id, c.to.id, class, size)
	p.clock += p.sim.cfg.CPU.EmptyPoll
	(*flow)(c).refuse()
}

func (c *conn) Invalidate() {
	if !c.from.over {
		c.back.invalidated = true
	}
}
