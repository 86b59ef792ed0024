package banyan

import "github.com/banyan-hpc/banyan/p2p"

// Ssend is the synchronous Send: it returns once the message has been matched
// with a receive, whatever its length. Errors as of Send.
func (c *Comm) Ssend(buf []byte, dst, tag int) error {
	_, err := c.Issend(buf, dst, tag).Wait()
	return err
}

// Issend begins a synchronous send; its request completes once the message has
// been matched with a receive and buf may be changed.
func (c *Comm) Issend(buf []byte, dst, tag int) Request {
	c = c.valid()
	if c.mode == modeUnaware {
		return Request{p2p.Issend[p2p.Unaware](c.core, buf, dst, tag), c}
	}
	return Request{p2p.Issend[p2p.Aware](c.core, buf, dst, tag), c}
}

// Rsend is the ready Send, for who knows that the receive has been posted. It
// is the same as Send: there is nothing to gain here, and a receive that is
// posted too late after all does no harm.
func (c *Comm) Rsend(buf []byte, dst, tag int) error { return c.Send(buf, dst, tag) }

// Irsend is the ready Isend, and the same as it.
func (c *Comm) Irsend(buf []byte, dst, tag int) Request { return c.Isend(buf, dst, tag) }
