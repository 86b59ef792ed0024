package banyan

import (
	"context"
	"fmt"
	"sync"

	"github.com/banyan-hpc/banyan/internal/debug"
	"github.com/banyan-hpc/banyan/p2p"
)

// Send sends buf to rank dst and returns when buf may be changed. A short message may then still be
// under way; a long one has been received.
//
// Errors: ErrArgument, ErrProcFailed, ErrDeparted, ErrRevoked, ErrClosed.
func (c *Comm) Send(buf []byte, dst, tag int) error {
	if c != nil {
		switch c.mode {
		case modeAware:
			return p2p.Send[p2p.Aware](c.core, buf, dst, tag)
		case modeUnaware:
			return p2p.Send[p2p.Unaware](c.core, buf, dst, tag)
		}
	}
	return c.sendAbsent(buf, dst, tag)
}

// Recv receives into buf a message from rank src, or AnySource, with a tag, or AnyTag. Messages
// from one rank match in the order in which they were sent.
//
// Errors: ErrTruncate if the message is longer than buf, which then holds its beginning;
// ErrArgument, ErrProcFailed, ErrDeparted, ErrRevoked, ErrClosed. From AnySource ErrProcFailed
// means that a rank has failed and this process has not acknowledged that ([Comm.AckFailed]). A
// message that was sent before its sender failed may arrive after the failure is known and
// acknowledged.
func (c *Comm) Recv(buf []byte, src, tag int) (Status, error) {
	if c != nil {
		switch c.mode {
		case modeAware:
			return p2p.Recv[p2p.Aware](c.core, buf, src, tag)
		case modeUnaware:
			return p2p.Recv[p2p.Unaware](c.core, buf, src, tag)
		}
	}
	return c.recvAbsent(buf, src, tag)
}

// Sendrecv sends and receives at once, so that two ranks may exchange messages in either order. The
// buffers must not overlap. Errors as for Send and Recv; an error of the send comes first.
func (c *Comm) Sendrecv(sbuf []byte, dst, stag int, rbuf []byte, src, rtag int) (Status, error) {
	if c != nil {
		switch c.mode {
		case modeAware:
			return p2p.Sendrecv[p2p.Aware](c.core, sbuf, dst, stag, rbuf, src, rtag)
		case modeUnaware:
			return p2p.Sendrecv[p2p.Unaware](c.core, sbuf, dst, stag, rbuf, src, rtag)
		}
	}
	return c.sendrecvAbsent(sbuf, dst, stag, rbuf, src, rtag)
}

// SendrecvReplace is Sendrecv with one buffer: it sends the contents of buf and replaces them by the
// message that it receives, in any order of the ranks (MPI_Sendrecv_replace). A shorter message leaves the
// rest of buf unchanged. After an error buf holds its old contents, or a part of a message.
func (c *Comm) SendrecvReplace(buf []byte, dst, stag, src, rtag int) (Status, error) {
	old := copyOf(buf)
	st, err := c.Sendrecv(*old, dst, stag, buf, src, rtag)
	if err == nil {
		copies.Put(old)
	} // otherwise the send may still read it
	return st, err
}

// copies holds unused buffers of copyOf, as *[]byte.
var copies sync.Pool

// copyOf returns a copy of buf that is aligned for numbers of any type.
func copyOf(buf []byte) *[]byte {
	b, _ := copies.Get().(*[]byte)
	if b == nil || cap(*b) < len(buf) {
		b = new([]byte)
		*b = make([]byte, 0, max(64, len(buf)))
	}
	*b = append((*b)[:0], buf...)
	return b
}

// Isend starts a send of buf, which must not change until the request is complete. Isend itself
// never fails: the request returns the error.
func (c *Comm) Isend(buf []byte, dst, tag int) Request {
	if c != nil {
		switch c.mode {
		case modeAware:
			return Request{p2p.Isend[p2p.Aware](c.core, buf, dst, tag), c}
		case modeUnaware:
			return Request{p2p.Isend[p2p.Unaware](c.core, buf, dst, tag), c}
		}
	}
	return c.isendAbsent(buf, dst, tag)
}

// Irecv starts a receive into buf, which must not be used until the request is complete. Irecv
// itself never fails: the request returns the error. From AnySource that may be
// ErrProcFailedPending, which does not end the receive: see [Request.Wait].
func (c *Comm) Irecv(buf []byte, src, tag int) Request {
	if c != nil {
		switch c.mode {
		case modeAware:
			return Request{p2p.Irecv[p2p.Aware](c.core, buf, src, tag), c}
		case modeUnaware:
			return Request{p2p.Irecv[p2p.Unaware](c.core, buf, src, tag), c}
		}
	}
	return c.irecvAbsent(buf, src, tag)
}

// The functions with Absent in their names handle views, nil and the zero Comm. They are separate so
// that the others reserve no stack space for the call.

//go:noinline
func (c *Comm) sendAbsent(buf []byte, dst, tag int) error {
	if c.debugs() {
		_, err := c.checkedSend(false, buf, debug.Bytes, dst, tag).ends()
		return err
	}
	c, ctx, err := c.enter("Send")
	switch {
	case err != nil:
		return err
	case ctx == nil:
		return c.Send(buf, dst, tag)
	}
	_, err = c.Isend(buf, dst, tag).orLeave(contexts{ctx})
	return err
}

//go:noinline
func (c *Comm) recvAbsent(buf []byte, src, tag int) (Status, error) {
	if c.debugs() {
		return c.checkedRecv(buf, debug.Bytes, src, tag).ends()
	}
	c, ctx, err := c.enter("Recv")
	switch {
	case err != nil:
		return Status{}, err
	case ctx == nil:
		return c.Recv(buf, src, tag)
	}
	return c.Irecv(buf, src, tag).finish(ctx)
}

// sendrecvAbsent leaves its halves as Send and Recv do on a view. If the send fails or is left under
// way, the receive is cancelled, or its message is in rbuf and the Status describes it beside the
// error.
//
//go:noinline
func (c *Comm) sendrecvAbsent(sbuf []byte, dst, stag int, rbuf []byte, src, rtag int) (Status, error) {
	if c.debugs() {
		return c.checkedSendrecv(sbuf, debug.Bytes, dst, stag, rbuf, debug.Bytes, src, rtag)
	}
	c, ctx, err := c.enter("Sendrecv")
	switch {
	case err != nil:
		return Status{}, err
	case ctx == nil:
		return c.Sendrecv(sbuf, dst, stag, rbuf, src, rtag)
	}
	r := c.Irecv(rbuf, src, rtag)
	if _, err := c.Isend(sbuf, dst, stag).orLeave(contexts{ctx}); err != nil {
		r.Cancel()
		st, _ := c.e.Wait(r.h) // the error of the send comes first
		return st, err
	}
	return r.finish(ctx)
}

//go:noinline
func (c *Comm) isendAbsent(buf []byte, dst, tag int) Request {
	if c.debugs() {
		return c.checkedSend(false, buf, debug.Bytes, dst, tag)
	}
	return c.bind(c.valid().Isend(buf, dst, tag))
}

//go:noinline
func (c *Comm) irecvAbsent(buf []byte, src, tag int) Request {
	if c.debugs() {
		return c.checkedRecv(buf, debug.Bytes, src, tag)
	}
	return c.bind(c.valid().Irecv(buf, src, tag))
}

// Ssend is the synchronous Send: it returns once the message has been matched with a receive,
// for messages of any length. Errors as of Send.
func (c *Comm) Ssend(buf []byte, dst, tag int) error {
	c, ctx, err := c.enter("Send")
	switch {
	case err != nil:
		return err
	case ctx != nil:
		_, err = c.Issend(buf, dst, tag).orLeave(contexts{ctx})
		return err
	}
	_, err = c.Issend(buf, dst, tag).Wait()
	return err
}

// Issend starts a synchronous send; its request completes once the message has been matched with a
// receive and buf may be changed.
func (c *Comm) Issend(buf []byte, dst, tag int) Request {
	if !c.plain() {
		return c.bind(c.valid().Issend(buf, dst, tag))
	}
	switch c.mode {
	case modeDebug:
		return c.checkedSend(true, buf, debug.Bytes, dst, tag)
	case modeUnaware:
		return Request{p2p.Issend[p2p.Unaware](c.core, buf, dst, tag), c}
	}
	return Request{p2p.Issend[p2p.Aware](c.core, buf, dst, tag), c}
}

// Rsend is the ready Send, for a receive that is known to be posted. It is the same as Send; a
// receive that is posted too late does no harm.
func (c *Comm) Rsend(buf []byte, dst, tag int) error { return c.Send(buf, dst, tag) }

// Irsend is the ready Isend. It is the same as Isend.
func (c *Comm) Irsend(buf []byte, dst, tag int) Request { return c.Isend(buf, dst, tag) }

// Probe waits for a message that Recv with the same arguments would receive, and returns its
// source, tag and length without receiving it. If several goroutines receive, another one may take
// the message first: use Mprobe then. Errors as for Recv.
func (c *Comm) Probe(src, tag int) (Status, error) {
	c, ctx, err := c.enter("Probe")
	switch {
	case err != nil:
		return Status{}, err
	case ctx != nil && src != ProcNull:
		return c.beginProbe(src, tag, p2p.ForProbe).finish(ctx)
	}
	if c.mode == modeUnaware {
		st, err := p2p.Probe[p2p.Unaware](c.core, src, tag)
		return st, c.notify(err)
	}
	st, err := p2p.Probe[p2p.Aware](c.core, src, tag)
	st.Count = c.payload(st.Count)
	return st, c.notify(err)
}

// Iprobe makes progress and reports whether there is such a message. Errors as for Recv: an error
// means that none can come.
func (c *Comm) Iprobe(src, tag int) (st Status, found bool, err error) {
	c = c.valid()
	if c.mode == modeUnaware {
		st, found, err = p2p.Iprobe[p2p.Unaware](c.core, src, tag)
	} else {
		st, found, err = p2p.Iprobe[p2p.Aware](c.core, src, tag)
		st.Count = c.payload(st.Count)
	}
	return st, found, c.notify(err)
}

// Message is a message that Mprobe or Improbe has taken out of matching: no receive and no probe
// finds it any more. Receive it, once: until then its sender may wait and its bytes take memory.
// Only one goroutine at a time may use it.
type Message struct {
	m p2p.Message
	c *Comm
}

// Mprobe waits for a message as Probe does, and takes it out of matching.
func (c *Comm) Mprobe(src, tag int) (*Message, error) {
	c, ctx, err := c.enter("Mprobe")
	switch {
	case err != nil:
		return nil, err
	case ctx != nil && src != ProcNull:
		return c.mprobe(ctx, src, tag, p2p.ForMprobe)
	}
	var m p2p.Message
	if c.mode == modeUnaware {
		m, err = p2p.Mprobe[p2p.Unaware](c.core, src, tag)
	} else {
		m, err = p2p.Mprobe[p2p.Aware](c.core, src, tag)
	}
	if err != nil {
		return nil, c.notify(err)
	}
	return &Message{m, c}, nil
}

// mprobe is Mprobe, or the first half of Borrow, with a context.
func (c *Comm) mprobe(ctx context.Context, src, tag int, kind p2p.Probing) (*Message, error) {
	r := c.beginProbe(src, tag, kind)
	c.e.Lock()
	if _, err := r.settle(contexts{ctx}); err != nil {
		c.e.Unlock()
		return nil, err
	}
	m, err := c.e.TakeMessage(r.h)
	c.e.Unlock()
	if err != nil {
		return nil, c.notify(err)
	}
	return &Message{m, c}, nil
}

// probeToBorrow is Mprobe for a Borrow.
func (c *Comm) probeToBorrow(src, tag int) (Message, error) {
	c, ctx, err := c.enter("Borrow")
	switch {
	case err != nil:
		return Message{}, err
	case ctx != nil && src != ProcNull:
		m, err := c.mprobe(ctx, src, tag, p2p.ForBorrow)
		if m == nil {
			m = new(Message)
		}
		return *m, err
	}
	var m p2p.Message
	if c.mode == modeUnaware {
		m, err = p2p.MprobeFor[p2p.Unaware](c.core, src, tag)
	} else {
		m, err = p2p.MprobeFor[p2p.Aware](c.core, src, tag)
	}
	return Message{m, c}, c.notify(err)
}

func (c *Comm) beginProbe(src, tag int, kind p2p.Probing) Request {
	if c.mode == modeUnaware {
		return Request{p2p.BeginProbe[p2p.Unaware](c.core, src, tag, kind), c}
	}
	h := p2p.BeginProbe[p2p.Aware](c.core, src, tag, kind)
	if c.mode == modeDebug && kind == p2p.ForProbe {
		h = c.e.Wrap(h, func(st Status, err error) (Status, error) {
			st.Count = c.payload(st.Count)
			return st, err
		})
	}
	return Request{h, c}
}

// Improbe makes progress and, if there is such a message, takes it out of matching as Mprobe does.
func (c *Comm) Improbe(src, tag int) (m *Message, found bool, err error) {
	c = c.valid()
	var core p2p.Message
	if c.mode == modeUnaware {
		core, found, err = p2p.Improbe[p2p.Unaware](c.core, src, tag)
	} else {
		core, found, err = p2p.Improbe[p2p.Aware](c.core, src, tag)
	}
	if !found || err != nil {
		return nil, false, c.notify(err)
	}
	return &Message{core, c}, true, nil
}

// errNoMessage is the error of the zero Message.
var errNoMessage = fmt.Errorf("%w: no message: Mprobe and Improbe give them", ErrArgument)

// Status returns the message's source, tag and length.
func (m *Message) Status() Status {
	if m == nil {
		return Status{}
	}
	st := m.m.Status()
	if m.c != nil {
		st.Count = m.c.payload(st.Count)
	}
	return st
}

// Recv receives the message into buf. Errors: ErrTruncate as for Comm.Recv; ErrProcFailed if the
// sender died before the message was complete; ErrArgument if it has been received before. No
// context ends it: the message is here, or arrives with its sender's frames.
func (m *Message) Recv(buf []byte) (Status, error) {
	if m == nil || m.c == nil {
		return Status{}, absent().opError("Message.Recv", errNoMessage)
	}
	if m.c.mode == modeDebug {
		return m.Irecv(buf).ends()
	}
	st, err := m.m.Recv(buf)
	return st, m.c.notify(err)
}

// Irecv starts to receive the message into buf. The request returns the error.
func (m *Message) Irecv(buf []byte) Request {
	if m == nil || m.c == nil {
		return absent().failed("Message.Irecv", errNoMessage)
	}
	if m.c.mode == modeDebug {
		st, room := m.Status(), debug.Room(len(buf))
		call := m.c.calls("recv of a message of %d bytes from rank %d, tag %d", st.Count, st.Source, st.Tag)
		return m.c.expect(buf, room, debug.Bytes, st.Source, st.Tag, call)(m.m.Irecv(room))
	}
	return Request{m.m.Irecv(buf), m.c}
}
