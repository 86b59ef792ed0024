package banyan

import (
	"fmt"
	"slices"

	"github.com/banyan-hpc/banyan/p2p"
)

// Send sends buf to rank dst and returns when buf may be changed. A short message may then still be
// in flight; a long one has been received.
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
// means that some rank has failed and this process has not acknowledged that ([Comm.AckFailed]).
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
// buffers must not overlap. Errors as of Send and Recv; the send's come first.
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

// Isend starts a send of buf, which must not change until the request is complete. It never fails:
// errors are the request's.
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

// Irecv starts a receive into buf, which must not be used until the request is complete. It never
// fails: errors are the request's. From AnySource they include ErrProcFailedPending, which does not
// end it: see [Request.Wait].
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

// These handle nil and the zero Comm. They are separate so that the others keep no stack space for
// the call.
//
//go:noinline
func (c *Comm) sendAbsent(buf []byte, dst, tag int) error { return absent().Send(buf, dst, tag) }

//go:noinline
func (c *Comm) recvAbsent(buf []byte, src, tag int) (Status, error) {
	return absent().Recv(buf, src, tag)
}

//go:noinline
func (c *Comm) sendrecvAbsent(sbuf []byte, dst, stag int, rbuf []byte, src, rtag int) (Status, error) {
	return absent().Sendrecv(sbuf, dst, stag, rbuf, src, rtag)
}

//go:noinline
func (c *Comm) isendAbsent(buf []byte, dst, tag int) Request { return absent().Isend(buf, dst, tag) }

//go:noinline
func (c *Comm) irecvAbsent(buf []byte, src, tag int) Request { return absent().Irecv(buf, src, tag) }

// Ssend is the synchronous Send: it returns once the message has been matched with a receive,
// whatever its length. Errors as of Send.
func (c *Comm) Ssend(buf []byte, dst, tag int) error {
	_, err := c.Issend(buf, dst, tag).Wait()
	return err
}

// Issend starts a synchronous send; its request completes once the message has been matched with a
// receive and buf may be changed.
func (c *Comm) Issend(buf []byte, dst, tag int) Request {
	c = c.valid()
	if c.mode == modeUnaware {
		return Request{p2p.Issend[p2p.Unaware](c.core, buf, dst, tag), c}
	}
	return Request{p2p.Issend[p2p.Aware](c.core, buf, dst, tag), c}
}

// Rsend is the ready Send, for a receive that is known to be posted. It is the same as Send: there
// is nothing to gain here, and a receive that is posted too late does no harm.
func (c *Comm) Rsend(buf []byte, dst, tag int) error { return c.Send(buf, dst, tag) }

// Irsend is the ready Isend, and the same as it.
func (c *Comm) Irsend(buf []byte, dst, tag int) Request { return c.Isend(buf, dst, tag) }

// Bsend is the buffered Send: it copies buf and returns at once, whatever the receiver does
// (MPI_Bsend). The copy is freed after the message has been received, or after its receiver has
// failed or the communicator was revoked: that is not reported. [World.Finalize] waits for all
// these messages.
//
// Errors as of Send as far as they are known at once, and ErrArgument, with nothing sent, if the
// copies under way would exceed the limit of [World.SetBufferLimit].
func (c *Comm) Bsend(buf []byte, dst, tag int) error {
	c = c.valid()
	return c.notify(c.bsend(buf, dst, tag))
}

// Ibsend is Bsend as a request, which has ended when the call returns (MPI_Ibsend).
func (c *Comm) Ibsend(buf []byte, dst, tag int) Request {
	c = c.valid()
	if err := c.bsend(buf, dst, tag); err != nil {
		return c.failed(err)
	}
	return Request{}
}

func (c *Comm) bsend(buf []byte, dst, tag int) error {
	b, e, n := &c.world.buffered, c.e, len(buf)+bufferOverhead
	e.Lock()
	if b.used+n > b.limit {
		e.Poll() // some may have been received
	}
	if b.used+n > b.limit || len(b.sends) >= b.most {
		b.free()
	}
	if b.used+n > b.limit {
		defer e.Unlock()
		return fmt.Errorf("bsend on %s: %w: %d bytes beside %d in %d messages that have not been received, limit %d: "+
			"receive first, use Send, or raise the limit (World.SetBufferLimit)",
			c.Name(), ErrArgument, n, b.used, len(b.sends), b.limit)
	}
	b.used += n
	e.Unlock()
	r := c.Isend(slices.Clone(buf), dst, tag)
	e.Lock()
	defer e.Unlock()
	if r.state(e) == p2p.Pending {
		b.sends = append(b.sends, bufferedSend{r, n})
		return nil
	}
	b.used -= n
	_, err := e.Take(r.h)
	return err
}

const (
	bufferLimit    = 16 << 20 // by default
	bufferOverhead = 64       // of a message, beside its bytes
)

// buffered are a rank's buffered sends, under the engine's lock.
type buffered struct {
	limit, used int // bytes
	sends       []bufferedSend
	most        int // sends at which to look for complete ones: so a call looks at a few on average
}

// bufferedSend is one under way; it counts as so many bytes.
type bufferedSend struct {
	r     Request
	bytes int
}

// free ends the sends that are complete.
func (b *buffered) free() {
	b.sends = slices.DeleteFunc(b.sends, func(s bufferedSend) bool {
		if s.r.state(s.r.c.e) == p2p.Pending {
			return false
		}
		_, _ = s.r.c.e.Take(s.r.h) // documented: not reported
		b.used -= s.bytes
		return true
	})
	b.most = 2*len(b.sends) + 16
}

// SetBufferLimit sets how many bytes the copies of [Comm.Bsend] of this rank may take, each message
// counted with 64 bytes more: 16 MiB by default. Messages under way stay. Error: ErrArgument if it
// is negative.
func (w *World) SetBufferLimit(bytes int) error {
	if w.absent() || bytes < 0 {
		return fmt.Errorf("set buffer limit: %w: %d bytes", ErrArgument, bytes)
	}
	w.job.P2P.Lock()
	defer w.job.P2P.Unlock()
	w.buffered.limit = bytes
	return nil
}

// drain returns when all buffered sends have ended.
func (w *World) drain() {
	e := w.job.P2P
	e.Lock()
	defer e.Unlock()
	for b := &w.buffered; len(b.sends) > 0; {
		last := b.sends[len(b.sends)-1]
		b.sends = b.sends[:len(b.sends)-1]
		_, _ = e.Take(last.r.h)
		b.used -= last.bytes
	}
}

// Probe waits for a message that Recv with the same arguments would receive, and returns its
// source, tag and length without receiving it. If several goroutines receive, another one may take
// the message first: use Mprobe then. Errors as of Recv.
func (c *Comm) Probe(src, tag int) (Status, error) {
	c = c.valid()
	if c.mode == modeUnaware {
		st, err := p2p.Probe[p2p.Unaware](c.core, src, tag)
		return st, c.notify(err)
	}
	st, err := p2p.Probe[p2p.Aware](c.core, src, tag)
	return st, c.notify(err)
}

// Iprobe makes progress and reports whether there is such a message. Errors as of Recv: with one,
// none can come.
func (c *Comm) Iprobe(src, tag int) (st Status, found bool, err error) {
	c = c.valid()
	if c.mode == modeUnaware {
		st, found, err = p2p.Iprobe[p2p.Unaware](c.core, src, tag)
	} else {
		st, found, err = p2p.Iprobe[p2p.Aware](c.core, src, tag)
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
	c = c.valid()
	var m p2p.Message
	var err error
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

// Improbe makes progress and does the same as Mprobe, if there is such a message.
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

// Status gives the message's source, tag and length.
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
	return st, m.c.notify(err)
}

// Irecv starts to receive the message into buf. Errors are the request's.
func (m *Message) Irecv(buf []byte) Request {
	if m == nil || m.c == nil {
		return absent().failed(fmt.Errorf("irecv of a message: %w", errNoMessage))
	}
	return Request{m.m.Irecv(buf), m.c}
}
