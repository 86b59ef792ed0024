package p2p

// Issend starts a synchronous send: its request completes once a receive has been matched. A
// message of any length takes the rendezvous, whose answer reports the match.
func Issend[M Mode](c *Comm, buf []byte, dst, tag int) Handle {
	if checked[M]() && c.state.Load() != 0 {
		if err := c.checkState(false); err != nil {
			return c.e.Failed(c, c.opError(reqSend, dst, tag, len(buf), err))
		}
	}
	return c.begin(buf, dst, tag, synchronous)
}
