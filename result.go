package banyan

import (
	"context"
	"fmt"

	"github.com/banyan-hpc/banyan/coll"
	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/ft/create"
	"github.com/banyan-hpc/banyan/ft/repair"
	"github.com/banyan-hpc/banyan/internal/debug"
	"github.com/banyan-hpc/banyan/p2p"
)

// Result is an operation under way that ends with a value, such as [Comm.Ishrink]. It is a small
// value; copies name the same operation, and follow the rules of [Request]. The zero Result has
// ended with the zero value.
type Result[T any] struct {
	r     Request
	value *T
}

// Wait returns when the operation is complete, with its value and error. Further calls return the
// value at once, without the error. If a context ends the wait ([Comm.WithContext]) the operation
// continues, and the value is the zero value.
func (p Result[T]) Wait() (T, error) {
	_, err := p.r.Wait()
	if err != nil && p.r.active() { // a context has ended the wait
		var none T
		return none, err
	}
	return p.Value(), err
}

// Test makes progress and reports whether the operation is complete; if so it has ended, as by Wait.
// Otherwise the value is the zero value.
func (p Result[T]) Test() (value T, done bool, err error) {
	if _, done, err = p.r.Test(); done {
		value = p.Value()
	}
	return value, done, err
}

// WithContext gives the same operation with waits that end with the context; see
// [Request.WithContext].
func (p Result[T]) WithContext(ctx context.Context) Result[T] {
	return Result[T]{p.r.WithContext(ctx), p.value}
}

// Request returns the operation's request, for waits with others, as in [WaitAny].
func (p Result[T]) Request() Request { return p.r }

// Value returns the value of an operation that any wait has ended; do not call it before.
func (p Result[T]) Value() (value T) {
	if p.value != nil {
		value = *p.value
	}
	return value
}

// WaitEach is WaitAll that stores the outcome of each request at its index of out, which must be at
// least as long as reqs. The outcome of a zero Request is a success. Error: the first of the
// requests', as for WaitAll, or ErrArgument if out is too short, and then nothing has been waited
// for.
func WaitEach(reqs []Request, out []Outcome) error {
	if len(out) < len(reqs) {
		return misuse("WaitEach", fmt.Errorf("%w: %d requests, and room for %d outcomes", ErrArgument, len(reqs), len(out)))
	}
	if cs, err := contextsOf(reqs); cs != nil || err != nil {
		if err == nil {
			err = waitBound(cs, reqs, out)
		}
		return err
	}
	var failed failures
	for i, r := range reqs {
		out[i], reqs[i] = Outcome{Index: i}, Request{}
		if r.h.Empty() {
			continue
		}
		r.c.e.Lock()
		st, err := r.c.e.Take(r.h)
		if err != nil && r.state(r.c.e) != p2p.Ended {
			r.c.e.Poll() // the message of the next request may have arrived
			if st, err = r.take(); r.state(r.c.e) != p2p.Ended {
				reqs[i] = r
			}
		}
		r.c.e.Unlock()
		if out[i].Status, out[i].Err = st, err; err != nil {
			failed = append(failed, failure{r.c, err})
		}
	}
	return failed.notify()
}

// A blocking operation of several ranks cannot be cancelled. On a view it runs in a goroutine of
// its own, as it would in its caller's, and so matches the calls of other ranks, with any
// contexts. The caller waits for the goroutine until the context ends.
//
// Collectives and creations have turns ([p2p.Comm.TakeTurn]): later calls of the rank wait for an
// operation whose caller has returned.

// errand is such an operation.
type errand struct {
	do   func() error
	drop func() // in the turn, frees a result whose caller has returned; nil: nothing to free
	left bool   // the caller has returned; under the engine's lock
}

// apart runs an operation in a goroutine of its own. It returns the operation's error, for which
// the handler was called, or that of the context. Turns: the operation has a turn.
func (c *Comm) apart(ctx context.Context, op string, turns bool, o *errand) error {
	e := c.e
	var turn p2p.Turn
	e.Lock()
	promise, h := e.NewPromise(c.core, op)
	if turns {
		turn = c.core.TakeTurn()
	}
	e.Unlock()
	e.Host().Go(func() {
		e.Lock()
		if turns {
			c.core.AwaitTurn(turn)
		}
		e.Unlock()
		err := o.do()
		e.Lock()
		if o.left && err == nil && o.drop != nil {
			e.Unlock()
			o.drop()
			e.Lock()
		}
		if turns {
			c.core.EndTurn(turn)
		}
		promise.Complete(err)
		e.Unlock()
	})
	return c.errandOf(h, ctx, op, o)
}

// errandOf waits for an operation of apart, or leaves it when the context ends.
func (c *Comm) errandOf(h p2p.Handle, ctx context.Context, op string, o *errand) error {
	c.e.Lock()
	if left, _ := (Request{h, c}).settle(contexts{ctx}); left {
		o.left = true
		c.e.Detach(h)
		c.e.Unlock()
		return c.opError(op, fmt.Errorf("still under way: %w", ctx.Err()))
	}
	_, err := c.e.Take(h)
	c.e.Unlock()
	return c.notify(err)
}

// create makes a communicator from this one. Count, if not nil, takes the number of a creation that needs no
// collective of this communicator, so has no turn and is not compared. It is called before a context can end the
// call, so that calls count in order.
func (c *Comm) create(
	d debug.Collective, count func(*p2p.Comm), args ft.Args, made func(create.Parent) (*p2p.Comm, error),
) (*Comm, error) {
	c, ctx, err := c.enter(d.Op)
	if err != nil {
		return nil, err
	}
	p, alone := c.parent(), count != nil
	p.InTurn = ctx != nil && !alone
	var call coll.Call
	if alone {
		count(c.core)
	} else {
		call = coll.Call{InTurn: p.InTurn, Check: c.comparison(d)}
	}
	if ctx == nil {
		if !alone {
			c.core.AwaitTurns()
		}
		var core *p2p.Comm
		if err = c.coll.Compare(c.core, call); err == nil {
			core, err = made(p)
		}
		if err != nil {
			return nil, c.notifyOf(d.Op, err, args[:]...)
		}
		return c.derived(core), nil
	}
	var core *p2p.Comm
	err = c.apart(ctx, d.Op, p.InTurn, &errand{
		do: func() (err error) {
			if err = c.coll.Compare(c.core, call); err == nil {
				core, err = made(p)
			}
			return c.opError(d.Op, err, args[:]...)
		},
		drop: func() {
			if core != nil {
				_ = create.Free(c.e, c.world.job.Repair, core)
			}
		},
	})
	if err != nil {
		return nil, err // the other goroutine may still use core
	}
	return c.derived(core), nil
}

// barrierOther is Barrier in modes other than the usual ones.
func (c *Comm) barrierOther() error {
	return c.collective(debug.Plain("Barrier"), nil, func(c *Comm, m manner) error { return c.doBarrier(m) })
}

// dupCore is the first half of Dup. It waits for earlier operations with turns, until the context ends if there
// is one, and compares the call. Met is the error of this rank's duplication. If the caller has returned, the
// goroutine takes its part in the outcome.
func (c *Comm) dupCore(ctx context.Context, p create.Parent) (core *p2p.Comm, met, err error) {
	call := coll.Call{InTurn: ctx != nil, Check: c.comparison(debug.Plain("Dup"))}
	if ctx == nil {
		c.core.AwaitTurns()
		if err = c.coll.Compare(c.core, call); err == nil {
			core, met = c.core.Dup()
		}
		return core, met, c.notifyOf("Dup", err)
	}
	var made struct {
		core *p2p.Comm
		err  error
	}
	err = c.apart(ctx, "Dup", true, &errand{
		do: func() error {
			err := c.coll.Compare(c.core, call)
			if err == nil {
				made.core, made.err = c.core.Dup()
			}
			return c.opError("Dup", err)
		},
		drop: func() {
			_ = p.Outcome(repair.Dup, made.core, made.err)
			if made.core != nil {
				_ = create.Free(c.e, c.world.job.Repair, made.core)
			}
		},
	})
	if err != nil {
		return nil, nil, err // the other goroutine may still use made
	}
	return made.core, made.err, nil
}

// dupApart is the second half of Dup on a view: d and met are the results of this rank's first
// half.
func (c *Comm) dupApart(ctx context.Context, p create.Parent, d *Comm, met error) (*Comm, error) {
	free := func() {
		if d != nil {
			_ = d.free()
		}
	}
	if !p.Agrees(met) {
		if met == nil {
			return d, nil
		}
		free()
		return nil, c.notifyOf("Dup", met)
	}
	var core *p2p.Comm
	if d != nil {
		core = d.core
	}
	err := c.apart(ctx, "Dup", true, &errand{do: func() error {
		err := p.Outcome(repair.Dup, core, met)
		if err != nil {
			free()
		}
		return c.opError("Dup", err)
	}, drop: free})
	if err != nil {
		return nil, err
	}
	return d, nil
}

// orLeave waits for an operation of several ranks, which continues if a context ends. Left: its
// result must not be accessed.
func (r Request) orLeave(cs contexts) (left bool, err error) {
	_, left, err = r.await(cs)
	if left {
		r.c.e.Lock()
		r.c.e.Detach(r.h)
		r.c.e.Unlock()
	}
	return left, err
}

// agreeApart is Agree on a view.
func (c *Comm) agreeApart(flag uint64) (uint64, error) {
	c, ctx, err := c.enter("Agree")
	switch {
	case err != nil:
		return 0, err
	case ctx == nil:
		if err = c.alike("Agree"); err != nil {
			return 0, err
		}
		return c.doAgree(flag)
	}
	at, check := new(flag), c.begins("Agree")
	left, err := Request{check.Follow(c.e, c.agree(at)), c}.orLeave(contexts{ctx})
	if left {
		return 0, err
	}
	return *at, err
}

// shrinkApart is Shrink on a view.
func (c *Comm) shrinkApart() (*Comm, error) {
	c, ctx, err := c.enter("Shrink")
	switch {
	case err != nil:
		return nil, err
	case ctx == nil:
		if err = c.alike("Shrink"); err != nil {
			return nil, err
		}
		return c.doShrink()
	}
	s, check := newShrinking(c), c.begins("Shrink")
	r := Request{check.Follow(c.e, c.shrink(s)), c}
	_, left, err := r.await(contexts{ctx})
	switch {
	case left:
		c.e.Host().Go(func() { r.shrunkForNobody(s) })
		return nil, err
	case err != nil:
		return nil, err
	}
	return s.left, nil
}

// shrunkForNobody frees the communicator of a shrink whose caller has returned.
func (r Request) shrunkForNobody(s *shrinking) {
	e := r.c.e
	e.Lock()
	_, _ = r.settle(nil)
	_, err := e.Take(r.h)
	e.Unlock()
	if err == nil && s.left != nil {
		_ = s.left.free()
	}
}

// validateApart is Validate on a view.
func (c *Comm) validateApart() (Group, error) {
	c, ctx, err := c.enter("Validate")
	switch {
	case err != nil:
		return Group{}, err
	case ctx == nil:
		if err = c.alike("Validate"); err != nil {
			return Group{}, err
		}
		return c.doValidate()
	}
	failed, check := new(Group), c.begins("Validate")
	h := c.validate([]*Comm{c}, func(_ int, g Group) { *failed = g })
	left, err := Request{check.Follow(c.e, h), c}.orLeave(contexts{ctx})
	if left || err != nil {
		return Group{}, err
	}
	return *failed, nil
}

// entered begins an operation on several communicators. It returns those to use and the contexts
// that end the operation.
func entered(op string, comms []*Comm) (of []*Comm, cs contexts, err error) {
	for _, c := range comms {
		if err := c.present(op); err != nil {
			return nil, nil, err
		}
		c, ctx, err := c.enter(op)
		if err != nil {
			return nil, nil, err
		}
		if of = append(of, c); ctx != nil {
			cs = append(cs, ctx)
		}
	}
	return of, cs, nil
}
