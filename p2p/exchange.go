package p2p

import "cmp"

// Exchange sends to one rank and receives from another at once, for collectives. On their
// communicators a failure ends both operations, so neither is cancelled because of the other. The
// send comes first, so that a short message that has arrived needs no queue.
func Exchange[M Mode](c *Comm, sbuf []byte, dst int, rbuf []byte, src, tag int) (Status, error) {
	h := Isend[M](c, sbuf, dst, tag)
	st, err := Recv[M](c, rbuf, src, tag)
	if h.r == nil {
		return st, err
	}
	_, serr := c.e.waitBlocking(h)
	return st, cmp.Or(err, serr)
}

// Sendrecv sends and receives at once; neither waits for the other.
func Sendrecv[M Mode](c *Comm, sbuf []byte, dst, stag int, rbuf []byte, src, rtag int) (Status, error) {
	h := Irecv[M](c, rbuf, src, rtag)
	serr := Send[M](c, sbuf, dst, stag)
	if serr != nil {
		c.e.Cancel(h)
	}
	st, err := c.e.waitBlocking(h)
	if serr != nil {
		return st, serr // Send has called the error handler
	}
	return st, c.notifyHandler(err)
}
