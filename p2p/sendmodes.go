package p2p

// Ssend is the synchronous Send: it returns once a receive has been matched with the message, even
// for an empty message or one to this rank itself (another goroutine must receive it).
func Ssend[M Mode](c *Comm, buf []byte, dst, tag int) error {
	_, err := c.e.Wait(Issend[M](c, buf, dst, tag))
	return err
}

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

// Rsend is the ready send: the receive has been posted. A standard send is as fast, since a posted
// receive takes it straight into its buffer. So it is Send, and one that comes too early is no
// error.
func Rsend[M Mode](c *Comm, buf []byte, dst, tag int) error { return Send[M](c, buf, dst, tag) }
