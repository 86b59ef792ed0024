package banyan

import (
	"context"
	"fmt"

	"github.com/banyan-hpc/banyan/fabric/host"
	"github.com/banyan-hpc/banyan/p2p"
)

// The calls with a context end when the context does, with an error that wraps
// ctx.Err(). It is no failure of an operation, and no error handler is told of
// it. One that has ended already starts nothing. With a context that
// cannot end they are the calls without it, and cost what those cost.
//
// In a simulation a wait with a context looks at it again and again in virtual
// time: have the context ended by a simulated rank, not by the clock.

// SendContext is Send that ends with the context. A message that has been begun
// cannot be taken back then: it may be received or not, and buf belongs to the
// library, which may still read it: do not change it any more. Who needs to know
// when it is free again uses Isend and Request.WaitContext.
func (c *Comm) SendContext(ctx context.Context, buf []byte, dst, tag int) error {
	if ctx.Done() == nil {
		return c.Send(buf, dst, tag)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("send on %s was not begun: %w", c.Name(), err)
	}
	r := c.Isend(buf, dst, tag)
	_, left, err := r.await(ctx)
	if left {
		c.e.Lock()
		c.e.Detach(r.h)
		c.e.Unlock()
	}
	return err
}

// RecvContext is Recv that ends with the context. No message is lost: if none
// has been matched, the receive is taken back and buf is as it was; if one has,
// it is waited for and received, without an error of the context.
func (c *Comm) RecvContext(ctx context.Context, buf []byte, src, tag int) (Status, error) {
	if ctx.Done() == nil {
		return c.Recv(buf, src, tag)
	}
	if err := ctx.Err(); err != nil {
		return Status{}, fmt.Errorf("recv on %s was not begun: %w", c.Name(), err)
	}
	return c.Irecv(buf, src, tag).WaitContext(ctx)
}

// ProbeContext is Probe that ends with the context.
func (c *Comm) ProbeContext(ctx context.Context, src, tag int) (Status, error) {
	if ctx.Done() == nil || src == ProcNull {
		return c.Probe(src, tag)
	}
	if err := ctx.Err(); err != nil {
		return Status{}, fmt.Errorf("probe on %s was not begun: %w", c.Name(), err)
	}
	r := Request{c: c}
	if c.unaware {
		r.h = p2p.BeginProbe[p2p.Unaware](c.core, src, tag)
	} else {
		r.h = p2p.BeginProbe[p2p.Aware](c.core, src, tag)
	}
	return r.WaitContext(ctx)
}

// WaitContext is Wait that ends with the context. A receive that has not been
// matched is taken back then, has ended, and leaves its buffer as it was; one
// that has been matched is waited for and gives its outcome. A send stays under
// way: wait for it again before its buffer is changed.
func (r Request) WaitContext(ctx context.Context) (Status, error) {
	st, _, err := r.await(ctx)
	return st, err
}

// await is WaitContext that also tells whether a send was left under way.
func (r Request) await(ctx context.Context) (st Status, left bool, err error) {
	if ctx.Done() == nil || r.h.Empty() {
		st, err = r.Wait()
		return st, false, err
	}
	e := r.c.e
	e.Lock()
	if e.State(r.h) == p2p.Pending {
		r.pass(ctx)
	}
	if e.State(r.h) == p2p.Pending {
		what, send := e.Describe(r.h)
		switch {
		case send:
			e.Unlock()
			return Status{}, true, fmt.Errorf("%s is still under way: %w", what, ctx.Err())
		case e.Abandon(r.h):
			e.Unlock()
			return Status{}, false, fmt.Errorf("%s was taken back: %w", what, ctx.Err())
		}
	}
	st, err = e.Take(r.h)
	e.Unlock()
	return st, false, r.c.raise(err)
}

// pass lets time pass until the request is complete or the context has ended.
// Precondition: the engine's lock is held, the request is under way.
func (r Request) pass(ctx context.Context) {
	e := r.c.e
	if _, real := e.Host().(*host.Host); !real {
		// The simulator alone decides who runs, so nothing outside may wake us.
		for e.State(r.h) == p2p.Pending && ctx.Err() == nil {
			e.Poll()
			e.Unlock()
			e.Host().Yield()
			e.Lock()
		}
		return
	}
	w := e.NewWatch()
	w.Add(r.h)
	interrupt := w.Interrupter()
	e.Unlock() // the context may be of a kind that runs the function at once
	stop := context.AfterFunc(ctx, interrupt)
	e.Lock()
	w.Wait()
	stop()
	w.Drop(r.h)
	w.Free()
}
