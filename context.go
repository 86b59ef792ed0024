package banyan

import (
	"context"
	"fmt"

	"github.com/banyan-hpc/banyan/fabric/host"
	"github.com/banyan-hpc/banyan/p2p"
)

// WithContext returns a view of the communicator. Blocking calls on the view end when the context ends,
// with an error that wraps ctx.Err(). The view is the same communicator: rank, group, name, attributes,
// error handler and policies are shared, and [Comm.Compare] returns Identical. Calls on the view and on
// the communicator match alike, at this rank and at others. The view of a view has only the new
// context. A view is a small value to be made for a few calls; communicators made from it are bound to
// no context.
//
//	err := c.WithContext(ctx).Barrier()
//
// The requests and persistent operations that are made on a view wait with its context. Non-blocking
// calls start in any state of the context. Receiving a message of Mprobe ignores the context.
//
// The end of a context is no failure: no error handler is called. A blocking call whose context has
// already ended starts nothing. If the context ends during the call:
//
//   - A receive or probe that no message has matched is cancelled, and buf is unchanged. A matched message
//     is received, without an error of the context. So no message is lost.
//   - A send stays under way: it may be received or not. buf belongs to the library, which may still read it.
//     Use Isend to find out when it is free again.
//   - A collective, the creation of a communicator, Agree, Shrink or Validate continues without the caller,
//     since other ranks depend on it. Its result is dropped, and a new communicator is freed. The buffers
//     of a collective belong to the library until it ends. A later collective or creation on the
//     communicator waits for it, and so do Agree, Shrink and Validate if the communicator has uniform operations
//     ([Comm.SetUniformity]). If the other ranks never call it, [Comm.Revoke] or World.Finalize ends it.
//
// With a context that cannot end, WithContext returns the communicator itself. A call on a view of a
// nil context is ErrArgument. In a simulation a wait polls the context in virtual time: end it in a
// simulated rank, not by the clock.
func (c *Comm) WithContext(ctx context.Context) *Comm {
	if c != nil && c.mode == modeBound {
		c = c.view().of
	}
	if ctx != nil && ctx.Done() == nil {
		return c
	}
	c = c.valid()
	return &(&view{Comm: Comm{e: c.e, mode: modeBound, world: c.world}, of: c, ctx: ctx}).Comm
}

// view is a communicator that is bound to a context. Its Comm has no core and a mode of its own, so
// operations detect it together with nil and the zero Comm, at no cost to other communicators.
type view struct {
	Comm // first: see Comm.view
	of   *Comm
	ctx  context.Context
}

// bound reports whether this is a view.
func (c *Comm) bound() bool { return c != nil && c.mode == modeBound }

// enter begins a blocking operation on a view, nil or the zero Comm. It returns the communicator to
// use and the context, which is nil if there is none.
func (c *Comm) enter(op string) (*Comm, context.Context, error) {
	of := c.valid()
	if !c.bound() {
		return of, nil, nil
	}
	ctx := c.view().ctx
	if ctx == nil {
		return of, nil, of.notifyOf(op, errNoContext)
	}
	if err := ctx.Err(); err != nil {
		return of, ctx, of.opError(op, fmt.Errorf("not started: %w", err))
	}
	return of, ctx, nil
}

// bind makes waits for a request end with the view's context.
func (c *Comm) bind(r Request) Request {
	if !r.h.Empty() {
		r.c.e.Lock()
		r.c.e.Bind(r.h, c.bound())
		r.c.e.Unlock()
	}
	if c.bound() {
		r.c = c
	}
	return r
}

// WithContext returns the same request with waits that end with this context, in place of the
// context of the communicator on which it was made; see [Comm.WithContext]. It serves to wait once
// more for an operation that the first wait has left under way.
func (r Request) WithContext(ctx context.Context) Request {
	if r.c == nil {
		return r
	}
	to := r.c.WithContext(ctx)
	if !to.bound() {
		r.c = to
	}
	return to.bind(r)
}

// active reports whether the request has not ended.
func (r Request) active() bool {
	if r.h.Empty() {
		return false
	}
	r.c.e.Lock()
	defer r.c.e.Unlock()
	return r.state(r.c.e) != p2p.Ended
}

// contexts are those that may end a wait, in the order of the requests. A nil one is an error.
type contexts []context.Context

// err is the error of the first that has ended, or nil.
func (cs contexts) err() error {
	for _, ctx := range cs {
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// contextsOf returns the contexts of the requests. Neighbours on one view share an entry.
func contextsOf(reqs []Request) (cs contexts, err error) {
	var last *Comm
	for i := range reqs {
		r := &reqs[i]
		if r.h.Empty() || !r.c.bound() || r.c == last {
			continue
		}
		last = r.c
		ctx := last.view().ctx
		if ctx == nil {
			return nil, misuse("Wait", fmt.Errorf("request %d: %w", i, errNoContext))
		}
		cs = append(cs, ctx)
	}
	return cs, nil
}

// unfinished is the slow path of a wait that has met an error: the request may be bound.
func (r Request) unfinished(st Status, err error) (Status, error) {
	again := err == p2p.ErrBound
	if r.c.bound() && !again {
		r.c.e.Lock()
		again = r.state(r.c.e) == p2p.InDoubt
		r.c.e.Unlock()
	}
	if !again {
		return st, r.c.notify(err)
	}
	cs, err := contextsOf([]Request{r})
	if err == nil {
		st, _, err = r.await(cs)
	}
	return st, err
}

// await waits for one request until a context ends. Left reports that the request is still under way:
// it cannot be cancelled, or it is a receive that is pending for a failure.
func (r Request) await(cs contexts) (st Status, left bool, err error) {
	if r.h.Empty() {
		return Status{}, false, nil
	}
	e := r.c.e
	e.Lock()
	if left, err = r.settle(cs); err == nil {
		e.Bind(r.h, false)
		st, err = e.Take(r.h)
		if left = r.state(e) != p2p.Ended; left {
			e.Bind(r.h, true)
		}
		e.Unlock()
		return st, left, r.c.notify(err)
	}
	e.Unlock()
	return Status{}, left, err
}

// finish is await for a blocking call: no receive stays pending.
func (r Request) finish(ctx context.Context) (st Status, err error) {
	if r.h.Empty() {
		return Status{}, nil
	}
	r.c.e.Lock()
	if _, err = r.settle(contexts{ctx}); err != nil {
		r.c.e.Unlock()
		return Status{}, err
	}
	st, err = r.c.e.TakeBlocking(r.h)
	r.c.e.Unlock()
	return st, r.c.notify(err)
}

// settle waits until the outcome of the request can be taken without a long wait, or a context has
// ended. In the latter case the error describes the request's state. Precondition: the engine's
// lock is held.
func (r Request) settle(cs contexts) (left bool, err error) {
	e := r.c.e
	one := [...]Request{r}
	awaitOne(cs, e, one[:])
	over := cs.err()
	if s := e.State(r.h); s != p2p.Pending && (s != p2p.InDoubt || over == nil) {
		return false, nil
	}
	if r.h.Stays() {
		return true, r.h.ErrorOf(fmt.Errorf("still under way: %w", over))
	}
	if err = r.h.ErrorOf(fmt.Errorf("taken back: %w", over)); e.Abandon(r.h) {
		return false, err
	}
	return false, nil
}

// watch waits for one of the watch's requests, or until a context has ended; it may return earlier.
// Precondition: the engine's lock is held.
func watch(cs contexts, e *p2p.Engine, w *p2p.Watch) {
	if len(cs) == 0 {
		w.Wait()
		return
	}
	if _, real := e.Host().(*host.Host); !real {
		// The simulator decides which rank runs, so nothing outside it may wake the rank.
		e.Poll()
		e.Unlock()
		e.Host().Yield()
		e.Lock()
		return
	}
	interrupt := w.Interrupter()
	e.Unlock() // some contexts run the function at once
	for _, ctx := range cs {
		defer context.AfterFunc(ctx, interrupt)()
	}
	e.Lock()
	w.Wait()
}

// take is the engine's Take. It accepts a request of which another copy is bound. Precondition: the
// lock is held.
func (r Request) take() (Status, error) {
	st, err := r.c.e.Take(r.h)
	if err == p2p.ErrBound {
		r.c.e.Bind(r.h, false)
		st, err = r.c.e.Take(r.h)
	}
	return st, err
}

// waitBound is WaitAll where some requests are bound, and WaitEach if out is not nil.
func waitBound(cs contexts, reqs []Request, out []Outcome) error {
	var first error
	for i, r := range reqs {
		st, left, err := r.await(cs)
		if !left {
			reqs[i] = Request{}
		}
		if out != nil {
			out[i] = Outcome{i, st, err}
		}
		if first == nil {
			first = err
		}
	}
	return first
}

// underWay is the error of a wait that has ended with requests under way, or nil.
func underWay(cs contexts, op string, e *p2p.Engine, reqs []Request) error {
	if _, pending := look(e, reqs); pending > 0 {
		return misuse(op, fmt.Errorf("%d requests are still under way: %w", pending, cs.err()))
	}
	return nil
}
