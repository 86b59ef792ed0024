package p2p

// Ssend is the synchronous Send: it returns once a receive has been matched
// with the message, also if that has no bytes or goes to this rank itself (in
// which case another goroutine must receive).
func Ssend[M Mode](c *Comm, buf []byte, dst, tag int) error {
	_, err := c.e.Wait(Issend[M](c, buf, dst, tag))
	return err
}

// Issend begins a synchronous send: its request completes once a receive has
// been matched. Every length takes the rendezvous, whose answer says just that.
func Issend[M Mode](c *Comm, buf []byte, dst, tag int) Handle {
	if checked[M]() && c.state.Load() != 0 {
		if err := c.checkState("send", false); err != nil {
			return c.e.failedRequest(c, reqSend, err)
		}
	}
	return c.begin(buf, dst, tag, true)
}

// Rsend is Send for who knows that the receive has been posted. Nothing is
// gained by knowing: a posted receive takes a standard send straight into its
// buffer. So it is Send, and one that comes too early is no error.
func Rsend[M Mode](c *Comm, buf []byte, dst, tag int) error { return Send[M](c, buf, dst, tag) }

// Irsend is to Isend as Rsend is to Send.
func Irsend[M Mode](c *Comm, buf []byte, dst, tag int) Handle { return Isend[M](c, buf, dst, tag) }
