package banyan

import (
	"fmt"

	"github.com/banyan-hpc/banyan/p2p"
)

// Probe waits for a message that Recv with the same arguments would receive,
// and tells its source, tag and length without receiving it. If several
// goroutines receive, another may take the message before this one does: use
// Mprobe then. Errors as of Recv.
func (c *Comm) Probe(src, tag int) (Status, error) {
	c = c.valid()
	if c.mode == modeUnaware {
		st, err := p2p.Probe[p2p.Unaware](c.core, src, tag)
		return st, c.raise(err)
	}
	st, err := p2p.Probe[p2p.Aware](c.core, src, tag)
	return st, c.raise(err)
}

// Iprobe makes progress and reports whether there is such a message, and what
// it is. Errors as of Recv: with one, none can come.
func (c *Comm) Iprobe(src, tag int) (st Status, found bool, err error) {
	c = c.valid()
	if c.mode == modeUnaware {
		st, found, err = p2p.Iprobe[p2p.Unaware](c.core, src, tag)
	} else {
		st, found, err = p2p.Iprobe[p2p.Aware](c.core, src, tag)
	}
	return st, found, c.raise(err)
}

// Message is a message that Mprobe or Improbe has taken out of matching: no
// receive and no probe sees it any more. Receive it, once: until then its
// sender may wait and its bytes take room. For one goroutine at a time.
type Message struct {
	m p2p.Message
	c *Comm
}

// Mprobe waits for a message as Probe does, and takes it out of matching.
func (c *Comm) Mprobe(src, tag int) (*Message, error) {
	c = c.valid()
	var m p2p.Message
	var err error
	if c.mode == modeUnaware {
		m, err = p2p.Mprobe[p2p.Unaware](c.core, src, tag)
	} else {
		m, err = p2p.Mprobe[p2p.Aware](c.core, src, tag)
	}
	if err != nil {
		return nil, c.raise(err)
	}
	return &Message{m, c}, nil
}

// Improbe makes progress and does what Mprobe would do, if there is such a
// message.
func (c *Comm) Improbe(src, tag int) (m *Message, found bool, err error) {
	c = c.valid()
	var core p2p.Message
	if c.mode == modeUnaware {
		core, found, err = p2p.Improbe[p2p.Unaware](c.core, src, tag)
	} else {
		core, found, err = p2p.Improbe[p2p.Aware](c.core, src, tag)
	}
	if !found || err != nil {
		return nil, false, c.raise(err)
	}
	return &Message{core, c}, true, nil
}

// errNoMessage is the error of the zero Message.
var errNoMessage = fmt.Errorf("%w: no message: Mprobe and Improbe give them", ErrArgument)

// Status tells the message's source, tag and length.
func (m *Message) Status() Status {
	if m == nil {
		return Status{}
	}
	return m.m.Status()
}

// Recv receives the message into buf. Errors: ErrTruncate as of Recv;
// ErrProcFailed if the sender died before the message was whole; ErrArgument
// if it has been received before.
func (m *Message) Recv(buf []byte) (Status, error) {
	if m == nil || m.c == nil {
		return Status{}, fmt.Errorf("recv of a message: %w", errNoMessage)
	}
	st, err := m.m.Recv(buf)
	return st, m.c.raise(err)
}

// Irecv begins to receive the message into buf. Errors are the request's.
func (m *Message) Irecv(buf []byte) Request {
	if m == nil || m.c == nil {
		return absent().failed(fmt.Errorf("irecv of a message: %w", errNoMessage))
	}
	return Request{m.m.Irecv(buf), m.c}
}
