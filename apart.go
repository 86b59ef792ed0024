package banyan

import (
	"context"
	"fmt"

	"github.com/banyan-hpc/banyan/ft/create"
	"github.com/banyan-hpc/banyan/ft/repair"
	"github.com/banyan-hpc/banyan/p2p"
)

// A blocking operation in which other ranks take part cannot be taken back. On a view it runs in a
// goroutine of its own, as it would in that of its caller, and so fits the calls of other ranks,
// whatever their contexts. The caller waits for the goroutine as long as the context lasts.
//
// Collectives and creations have turns ([p2p.Comm.TakeTurn]): those that the rank calls afterwards
// wait for one whose caller has left.

// errand is such an operation.
type errand struct {
	do      func() error
	drop    func() // what becomes of a result that nobody waits for; nil: nothing
	started bool   // these under the engine's lock
	left    bool   // the caller waits no longer
}

// apart runs an operation in a goroutine of its own, and gives its error, for which the handler was
// called, or that of the context. Turns: it has a turn.
func (c *Comm) apart(ctx context.Context, op string, turns bool, o *errand) error {
	e := c.e
	var turn p2p.Turn
	e.Lock()
	promise, h := e.NewPromise(c.core)
	if turns {
		turn = c.core.TakeTurn()
	}
	e.Unlock()
	e.Host().Go(func() {
		e.Lock()
		if turns {
			c.core.AwaitTurn(turn)
		}
		o.started = !o.left
		e.Unlock()
		var err error
		if o.started {
			err = o.do()
		}
		e.Lock()
		if turns {
			c.core.EndTurn(turn)
		}
		promise.Complete(err)
		dropped := o.left && err == nil
		e.Unlock()
		if dropped && o.drop != nil {
			o.drop()
		}
	})
	return c.errandOf(h, ctx, op, o)
}

// errandOf waits for an operation apart, or leaves it.
func (c *Comm) errandOf(h p2p.Handle, ctx context.Context, op string, o *errand) error {
	c.e.Lock()
	if left, _ := (Request{h, c}).settle(contexts{ctx}); left {
		o.left = true
		c.e.Detach(h)
		started := o.started
		c.e.Unlock()
		if started {
			return fmt.Errorf("%s on %s is still under way: %w", op, c.Name(), ctx.Err())
		}
		return fmt.Errorf("%s on %s was not started: one before it is still under way: %w", op, c.Name(), ctx.Err())
	}
	_, err := c.e.Take(h)
	c.e.Unlock()
	return c.notify(err)
}

// collective runs a blocking collective on a view, nil or the zero Comm. Do is called with that to use.
func (c *Comm) collective(op string, do func(c *Comm, inTurn bool) error) error {
	c, ctx, err := c.enter(op)
	switch {
	case err != nil:
		return err
	case ctx == nil:
		return c.notify(do(c, false))
	}
	return c.apart(ctx, op, true, &errand{do: func() error { return do(c, true) }})
}

// create makes a communicator from this one. Alone: it needs no collective of this communicator, so
// that it has no turn.
func (c *Comm) create(op string, alone bool, made func(create.Parent) (*p2p.Comm, error)) (*Comm, error) {
	c, ctx, err := c.enter(op)
	if err != nil {
		return nil, err
	}
	p := c.parent()
	if ctx == nil {
		if !alone {
			c.core.AwaitTurns()
		}
		return c.made(made(p))
	}
	var core *p2p.Comm
	p.InTurn = !alone
	err = c.apart(ctx, op, p.InTurn, &errand{
		do: func() (err error) {
			core, err = made(p)
			return err
		},
		drop: func() {
			if core != nil {
				_ = create.Free(c.e, c.world.job.Repair, core)
			}
		},
	})
	if err != nil {
		return nil, err // core is not ours: the goroutine may still use it
	}
	return c.derived(core), nil
}

// dupApart is the rest of Dup on a view: d and err are what this rank has made and met.
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
		return nil, c.notify(met)
	}
	var core *p2p.Comm
	if d != nil {
		core = d.core
	}
	err := c.apart(ctx, "dup", true, &errand{do: func() error {
		err := p.Outcome(repair.Dup, core, met)
		if err != nil {
			free()
		}
		return err
	}, drop: free})
	if err != nil {
		return nil, err
	}
	return d, nil
}

// awaitTurns waits for the turns of others as long as the context, if there is one, lasts.
func (c *Comm) awaitTurns(ctx context.Context, op string) error {
	if ctx == nil {
		c.core.AwaitTurns()
		return nil
	}
	return c.apart(ctx, op, true, &errand{do: func() error { return nil }})
}

// orLeave waits for an operation of other ranks that goes on if a context ends. Left: its result must
// not be touched any more.
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
	c, ctx, err := c.enter("agree")
	switch {
	case err != nil:
		return 0, err
	case ctx == nil:
		return c.Agree(flag)
	}
	at := new(flag)
	left, err := Request{c.agree(at), c}.orLeave(contexts{ctx})
	if left {
		return 0, err
	}
	return *at, err
}

// shrinkApart is Shrink on a view.
func (c *Comm) shrinkApart() (*Comm, error) {
	c, ctx, err := c.enter("shrink")
	switch {
	case err != nil:
		return nil, err
	case ctx == nil:
		return c.Shrink()
	}
	s := newShrinking(c)
	r := Request{c.shrink(s), c}
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

// shrunkForNobody frees the communicator that comes out of a shrink.
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
	c, ctx, err := c.enter("validate")
	switch {
	case err != nil:
		return Group{}, err
	case ctx == nil:
		return c.Validate()
	}
	failed := new(Group)
	left, err := Request{c.validate([]*Comm{c}, func(_ int, g Group) { *failed = g }), c}.orLeave(contexts{ctx})
	if left || err != nil {
		return Group{}, err
	}
	return *failed, nil
}

// entered begins an operation on several communicators, and gives those to use and the contexts that
// end it.
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
