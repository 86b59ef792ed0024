package banyan

import (
	"context"
	"fmt"

	"github.com/banyan-hpc/banyan/fabric/host"
	"github.com/banyan-hpc/banyan/p2p"
)

// WithContext gives a view of the communicator whose blocking calls end when the context does, with
// an error that wraps ctx.Err(). The view is the same communicator: rank, group, name, attributes,
// error handler and policies are shared, and [Comm.Compare] says Identical. Calls on the view and on
// the communicator match alike, at this rank and at others. The view of a view has the new context
// alone. A view is a small value to be made for a few calls; communicators made from it are bound to
// no context.
//
//	err := c.WithContext(ctx).Barrier()
//
// The requests and persistent operations that are made on a view wait with its context. Non-blocking
// calls start whatever the state of the context. A message of Mprobe is received without one.
//
// The end of a context is no failure: no error handler is called. A blocking call whose context has
// ended before starts nothing. One whose context ends meanwhile leaves
//
//   - a receive or probe taken back if no message has matched it, and buf unchanged; else the message
//     is received, without an error of the context. So no message is lost;
//   - a send under way: it may be received or not. buf belongs to the library, which may still read it.
//     Use Isend to learn when it is free again;
//   - a collective, the creation of a communicator, Agree, Shrink and Validate under way, as other
//     ranks count on it: it goes on without the caller, and its result is dropped. A communicator that
//     comes out of it is freed. The buffers of a collective belong to the library until it is over.
//     A later collective or creation on the communicator, also of this rank alone, waits for that. If
//     the other ranks never call it [Comm.Revoke] ends it, and so does World.Finalize.
//
// With a context that cannot end, WithContext gives the communicator itself. A call on a view of a nil
// context is ErrArgument. In a simulation a wait polls the context in virtual time: end it in a
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
// that operations find it where they find nil and the zero Comm, and others pay nothing for it.
type view struct {
	Comm // first: see Comm.view
	of   *Comm
	ctx  context.Context
}

// bound reports whether this is a view.
func (c *Comm) bound() bool { return c != nil && c.mode == modeBound }

// enter begins a blocking operation on a view, nil or the zero Comm. It gives the communicator to use,
// and the context, or nil where there is none.
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

// bind has the waits for a request end with the view's context.
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

// WithContext gives the same request with waits that end with the context, in place of that of the
// communicator on which it was made; see [Comm.WithContext]. It is for a second wait, with more
// patience, for what the first one has left under way.
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

// contexts are those that may end a wait, in the order of the requests. A nil one makes it an error.
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

// contextsOf gives the contexts of the requests, that of neighbours on one view once.
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

// unfinished is the rest of a wait that has met an error: the request may be bound.
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

// await waits for one request until a context ends. It also reports whether the request was left under
// way: one that cannot be taken back, or a receive that is pending for a failure.
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

// finish is await of a call that blocks: no receive stays pending.
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
// ended: then the error describes the request's state. Precondition: the engine's lock is held.
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
		// The simulator decides which rank runs, so nothing outside may wake it.
		e.Poll()
		e.Unlock()
		e.Host().Yield()
		e.Lock()
		return
	}
	interrupt := w.Interrupter()
	e.Unlock() // a context may be of a kind that runs the function at once
	for _, ctx := range cs {
		defer context.AfterFunc(ctx, interrupt)()
	}
	e.Lock()
	w.Wait()
}

// take is the engine's Take, also of a request of which another copy is bound. Precondition: the lock
// is held.
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
