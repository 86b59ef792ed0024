package banyan

import (
	"context"
	"fmt"

	"github.com/banyan-hpc/banyan/fabric/host"
	"github.com/banyan-hpc/banyan/p2p"
)

// The calls with a context end when the context does, with an error that wraps ctx.Err(). That is
// no failure of an operation, and no error handler is called. A context that has ended starts
// nothing. With a context that cannot end they are the calls without one, at the same cost.
//
// In a simulation a wait with a context polls the context in virtual time: end the context in a
// simulated rank, not by the clock.

// SendContext is Send that ends with the context. A message that was started cannot be taken back
// then: it may be received or not, and buf belongs to the library, which may still read it; do not
// change it any more. Use Isend and Request.WaitContext to learn when it is free again.
func (c *Comm) SendContext(ctx context.Context, buf []byte, dst, tag int) error {
	c = c.valid()
	if ctx == nil {
		return c.notify(fmt.Errorf("send on %s: %w", c.Name(), errNoContext))
	}
	if ctx.Done() == nil {
		return c.Send(buf, dst, tag)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("send on %s was not started: %w", c.Name(), err)
	}
	return c.Isend(buf, dst, tag).sent(ctx)
}

// sent waits for a send, and leaves it to the engine if the context ends first.
func (r Request) sent(ctx context.Context) error {
	_, left, err := r.await(ctx)
	if left {
		r.c.e.Lock()
		r.c.e.Detach(r.h)
		r.c.e.Unlock()
	}
	return err
}

// RecvContext is Recv that ends with the context. No message is lost: if none has been matched the
// receive is taken back and buf is unchanged; if one has, it is received, without an error of the
// context.
func (c *Comm) RecvContext(ctx context.Context, buf []byte, src, tag int) (Status, error) {
	c = c.valid()
	if ctx == nil {
		return Status{}, c.notify(fmt.Errorf("recv on %s: %w", c.Name(), errNoContext))
	}
	if ctx.Done() == nil {
		return c.Recv(buf, src, tag)
	}
	if err := ctx.Err(); err != nil {
		return Status{}, fmt.Errorf("recv on %s was not started: %w", c.Name(), err)
	}
	return c.Irecv(buf, src, tag).finish(ctx)
}

// ProbeContext is Probe that ends with the context.
func (c *Comm) ProbeContext(ctx context.Context, src, tag int) (Status, error) {
	c = c.valid()
	if ctx == nil {
		return Status{}, c.notify(fmt.Errorf("probe on %s: %w", c.Name(), errNoContext))
	}
	if ctx.Done() == nil || src == ProcNull {
		return c.Probe(src, tag)
	}
	if err := ctx.Err(); err != nil {
		return Status{}, fmt.Errorf("probe on %s was not started: %w", c.Name(), err)
	}
	return c.beginProbe(src, tag, false).WaitContext(ctx)
}

func (c *Comm) beginProbe(src, tag int, claim bool) Request {
	if c.mode == modeUnaware {
		return Request{p2p.BeginProbe[p2p.Unaware](c.core, src, tag, claim), c}
	}
	return Request{p2p.BeginProbe[p2p.Aware](c.core, src, tag, claim), c}
}

// MprobeContext is Mprobe that ends with the context: then no message has been taken out.
func (c *Comm) MprobeContext(ctx context.Context, src, tag int) (*Message, error) {
	c = c.valid()
	if ctx == nil {
		return nil, c.notify(fmt.Errorf("mprobe on %s: %w", c.Name(), errNoContext))
	}
	if ctx.Done() == nil || src == ProcNull {
		return c.Mprobe(src, tag)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("mprobe on %s was not started: %w", c.Name(), err)
	}
	r := c.beginProbe(src, tag, true)
	c.e.Lock()
	if _, err := r.settle(ctx); err != nil {
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

// RecvContext is Recv that ends with the context only if that has ended before: the message is
// there, or will be when its sender's frames arrive.
func (m *Message) RecvContext(ctx context.Context, buf []byte) (Status, error) {
	if ctx == nil {
		return Status{}, fmt.Errorf("recv of a message: %w", errNoContext)
	}
	if m == nil || m.c == nil {
		return Status{}, fmt.Errorf("recv of a message: %w", errNoMessage)
	}
	if err := ctx.Err(); err != nil {
		return Status{}, fmt.Errorf("recv on %s was not started: %w", m.c.Name(), err)
	}
	return m.Recv(buf)
}

// SsendContext is Ssend that ends with the context, as SendContext does.
func (c *Comm) SsendContext(ctx context.Context, buf []byte, dst, tag int) error {
	c = c.valid()
	if ctx == nil {
		return c.notify(fmt.Errorf("send on %s: %w", c.Name(), errNoContext))
	}
	if ctx.Done() == nil {
		return c.Ssend(buf, dst, tag)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("send on %s was not started: %w", c.Name(), err)
	}
	return c.Issend(buf, dst, tag).sent(ctx)
}

// RsendContext is SendContext for a receive that is known to be posted.
func (c *Comm) RsendContext(ctx context.Context, buf []byte, dst, tag int) error {
	return c.SendContext(ctx, buf, dst, tag)
}

// SendrecvContext is Sendrecv that ends with the context, as SendContext and RecvContext do. If the
// send fails or is left under way the receive is taken back, or its message is in rbuf and the
// Status reports it beside the error.
func (c *Comm) SendrecvContext(
	ctx context.Context, sbuf []byte, dst, stag int, rbuf []byte, src, rtag int,
) (Status, error) {
	c = c.valid()
	if ctx == nil {
		return Status{}, c.notify(fmt.Errorf("sendrecv on %s: %w", c.Name(), errNoContext))
	}
	if ctx.Done() == nil {
		return c.Sendrecv(sbuf, dst, stag, rbuf, src, rtag)
	}
	if err := ctx.Err(); err != nil {
		return Status{}, fmt.Errorf("sendrecv on %s was not started: %w", c.Name(), err)
	}
	r := c.Irecv(rbuf, src, rtag)
	if err := c.Isend(sbuf, dst, stag).sent(ctx); err != nil {
		r.Cancel()
		st, _ := c.e.Wait(r.h) // the send's error comes first
		return st, err
	}
	return r.finish(ctx)
}

// WaitContext is Wait that ends with the context. A receive that has not been matched is then taken
// back, has ended, and leaves its buffer unchanged; one that has been matched is received. A send
// stays under way: wait for it again before its buffer is changed. So does an operation in which
// other ranks take part (Iagree, Ishrink, Ivalidate, collectives).
func (r Request) WaitContext(ctx context.Context) (Status, error) {
	if ctx == nil {
		return Status{}, fmt.Errorf("wait: %w", errNoContext)
	}
	st, _, err := r.await(ctx)
	return st, err
}

// await is WaitContext that also reports whether the request was left under way: one that cannot be
// taken back, or a receive that is pending for a failure.
func (r Request) await(ctx context.Context) (st Status, left bool, err error) {
	if r.h.Empty() {
		return Status{}, false, nil
	}
	r.c.e.Lock()
	if left, err = r.settle(ctx); err != nil {
		r.c.e.Unlock()
		return Status{}, left, err
	}
	st, err = r.c.e.Take(r.h)
	left = r.state(r.c.e) != p2p.Ended
	r.c.e.Unlock()
	return st, left, r.c.notify(err)
}

// finish is WaitContext of a call that blocks: no receive stays pending.
func (r Request) finish(ctx context.Context) (st Status, err error) {
	if r.h.Empty() {
		return Status{}, nil
	}
	r.c.e.Lock()
	if _, err = r.settle(ctx); err != nil {
		r.c.e.Unlock()
		return Status{}, err
	}
	st, err = r.c.e.TakeBlocking(r.h)
	r.c.e.Unlock()
	return st, r.c.notify(err)
}

// settle waits until the outcome of the request can be taken without a long wait, or the context
// has ended: then the error describes the request's state. Precondition: the engine's lock is held.
func (r Request) settle(ctx context.Context) (left bool, err error) {
	if ctx.Done() == nil {
		return false, nil
	}
	e := r.c.e
	one := [...]Request{r}
	awaitOne(ctx, e, one[:])
	if s := e.State(r.h); s != p2p.Pending && (s != p2p.InDoubt || ctx.Err() == nil) {
		return false, nil
	}
	what, stays := e.Describe(r.h)
	switch {
	case stays:
		return true, fmt.Errorf("%s is still under way: %w", what, ctx.Err())
	case e.Abandon(r.h):
		return false, fmt.Errorf("%s was taken back: %w", what, ctx.Err())
	}
	return false, nil
}

// watch waits for one of the watch's requests, or until the context has ended; it may return
// earlier. Precondition: the engine's lock is held.
func watch(ctx context.Context, e *p2p.Engine, w *p2p.Watch) {
	if ctx.Done() == nil {
		w.Wait()
		return
	}
	if _, real := e.Host().(*host.Host); !real {
		// The simulator decides which rank runs, so nothing outside may wake it.
		e.Poll()
		e.Unlock()
		e.Host().Yield()
		e.Lock()
		return
	}
	interrupt := w.Interrupter()
	e.Unlock() // the context may be of a kind that runs the function at once
	stop := context.AfterFunc(ctx, interrupt)
	e.Lock()
	w.Wait()
	stop()
}

// WaitContext is Wait that ends with the context; see [Request.WaitContext].
func (p *Persistent) WaitContext(ctx context.Context) (Status, error) {
	switch {
	case ctx == nil:
		return Status{}, fmt.Errorf("wait: %w", errNoContext)
	case p == nil || p.c == nil:
		return Status{}, fmt.Errorf("wait: %w", errNoPersistent)
	}
	st, left, err := p.round.await(ctx)
	if !left {
		p.round = Request{}
	}
	return st, err
}

// WaitAllContext is WaitAll that ends with the context. The requests are then treated as by
// Request.WaitContext: receives that have not been matched are taken back, and sends and agreements
// that are still under way stay in the slice.
func WaitAllContext(ctx context.Context, reqs []Request) error {
	if ctx == nil {
		return fmt.Errorf("wait for all requests: %w", errNoContext)
	}
	if ctx.Done() == nil {
		return WaitAll(reqs)
	}
	var first error
	for i, r := range reqs {
		_, left, err := r.await(ctx)
		if !left {
			reqs[i] = Request{}
		}
		if first == nil {
			first = err
		}
	}
	return first
}

// WaitAnyContext is WaitAny that ends with the context: then all requests stay as
// they are, and the index is -1.
func WaitAnyContext(ctx context.Context, reqs []Request) (index int, st Status, err error) {
	if ctx == nil {
		return -1, Status{}, fmt.Errorf("wait for any request: %w", errNoContext)
	}
	e, err := engine(reqs)
	if e == nil {
		return -1, Status{}, err
	}
	e.Lock()
	i := awaitOne(ctx, e, reqs)
	if i < 0 {
		err = unfinished(ctx, "wait for any request", e, reqs)
		e.Unlock()
		return i, Status{}, err
	}
	c := reqs[i].c
	st, err = take(reqs, i)
	e.Unlock()
	return i, st, c.notify(err)
}

// WaitSomeContext is WaitSome that ends with the context: then all requests stay
// as they are, and nothing is appended.
func WaitSomeContext(ctx context.Context, reqs []Request, out []Outcome) ([]Outcome, error) {
	if ctx == nil {
		return out, fmt.Errorf("wait for some requests: %w", errNoContext)
	}
	e, err := engine(reqs)
	if e == nil {
		return out, err
	}
	e.Lock()
	if awaitOne(ctx, e, reqs) < 0 {
		err = unfinished(ctx, "wait for some requests", e, reqs)
	}
	out, failed := takeComplete(e, reqs, out)
	e.Unlock()
	_ = failed.notify()
	return out, err
}

// unfinished is the error of a wait that has ended with requests under way.
func unfinished(ctx context.Context, what string, e *p2p.Engine, reqs []Request) error {
	if _, pending := look(e, reqs); pending > 0 {
		return fmt.Errorf("%s, of which %d are under way: %w", what, pending, ctx.Err())
	}
	return nil
}
