package p2p

import (
	"fmt"
	"slices"

	"github.com/banyan-hpc/banyan/ft"
)

// Free ends the communicator: no operation can be begun on it any more. Those
// under way, receives and probes that wait for a match among them, end as if it
// had not been called; messages that have arrived and that none of them takes are
// dropped. A second call is ft.ErrClosed.
func (c *Comm) Free() error {
	e := c.e
	e.p.Lock()
	defer e.p.Unlock()
	if c.state.Load()&stateFreed != 0 {
		return fmt.Errorf("free of %s: %w: the communicator has been freed before", c.name, ft.ErrClosed)
	}
	c.free()
	if c.local != nil {
		c.local.free()
	}
	return nil
}

func (c *Comm) free() {
	if c.coll != nil {
		c.coll.free()
	}
	e := c.e
	c.state.Or(stateFreed)
	e.comms = slices.DeleteFunc(e.comms, func(o *Comm) bool { return o == c })
	for m := e.early.oldest; m != nil; {
		next := m.younger
		// One that is still arriving, or whose sender waits, ends as usual.
		if m.imm>>32 == c.ctx>>32 && !m.rts && m.got == m.total {
			e.early.remove(m)
			e.unkept(m)
			e.early.release(m)
		}
		m = next
	}
}

// holder gives the communicator that has a context: one that has not been freed,
// or one on which receives or probes still wait. Precondition: the lock is held.
func (e *Engine) holder(ctx uint32) (c *Comm) {
	want := uint64(ctx) << 32
	for _, o := range e.comms {
		if o.ctx == want {
			return o
		}
	}
	look := func(r *Request) {
		if r.comm.ctx&^(collContext<<32) == want {
			c = r.comm
		}
	}
	e.posted.all(look)
	e.probing.all(look)
	return c
}

// Close has all operations that are begun from now on fail with ft.ErrClosed.
func (e *Engine) Close() {
	e.p.Lock()
	defer e.p.Unlock()
	e.closed = true
	for _, c := range e.comms {
		c.state.Or(stateFinal)
	}
}
