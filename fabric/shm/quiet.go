package shm

import (
	"slices"

	"github.com/banyan-hpc/banyan/internal/futex"
)

// Poll reads the rings that have delivered lately. A ring that has not is marked as cold: its
// producer sets its bit in the bitmap with the next frame, as a newcomer does, and Poll reads the
// ring again from then on. So the cost of a poll does not depend on the number of quiet peers.
//
// The mark and the frame are a race that both sides must not lose: the producer publishes the frame
// and then reads the mark, the consumer sets the mark and then reads the ring. The barrier between
// the two costs the producer nothing where the consumer can use membarrier, as for the bell.

const (
	// keptHot is the number of rings that are read in any case.
	keptHot = 2
	// coolReads is the number of reads of rings between two searches for quiet ones. A mark costs the next
	// frame as much as some 15 reads.
	coolReads = 4096
)

// heat makes Poll read a ring.
func (p *Provider) heat(c *Conn) {
	if c.hot || c.reported {
		return
	}
	c.hot = true
	c.in.cur.cold.Store(0)
	c.visited = c.in.received() - 1 // not quiet at the next search
	p.inbound = append(p.inbound, c)
}

// removeInbound ends the reading of a ring.
func (p *Provider) removeInbound(c *Conn) {
	p.inbound = slices.DeleteFunc(p.inbound, func(x *Conn) bool { return x == c })
	c.hot = false
}

// cool stops the reading of rings that have delivered nothing since the last call.
func (p *Provider) cool() {
	p.looks = 0
	quiet := 0
	for _, c := range p.inbound {
		if n := c.in.received(); n != c.visited {
			c.visited = n
			continue
		}
		c.in.cur.cold.Store(1)
		quiet++
	}
	if quiet == 0 {
		return
	}
	if futex.Registered() {
		futex.Barrier()
	}
	p.inbound = slices.DeleteFunc(p.inbound, func(c *Conn) bool {
		if c.in.cur.cold.Load() == 0 {
			return false
		}
		if c.in.cut || c.in.fresh() {
			c.in.cur.cold.Store(0)
			return false
		}
		c.hot = false
		return true
	})
}
