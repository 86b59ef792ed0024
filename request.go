package banyan

import (
	"context"
	"fmt"

	"github.com/banyan-hpc/banyan/p2p"
)

// Request is an operation under way. It is a small value; copies name the same operation. It ends
// when it has been waited for, or tested to be complete; after that, and for the zero Request, Wait
// returns at once.
type Request struct {
	h p2p.Handle
	c *Comm
}

// Wait returns when the operation is complete, with its outcome. The Status is meaningful for
// receives only. Errors as of Send and Recv, and ErrProcFailedPending: a rank has failed that this
// receive from AnySource may have been meant for. Then the request is still active: acknowledge the
// failure ([Comm.AckFailed]) and wait again, wait again without (the error is returned again unless
// a message has come), or cancel it and wait.
func (r Request) Wait() (Status, error) {
	if r.h.Empty() {
		return Status{}, nil
	}
	st, err := r.c.e.Wait(r.h)
	return st, r.c.notify(err)
}

// Test makes progress and reports whether the operation is complete; if so it has ended, as by
// Wait. With ErrProcFailedPending it is still active: done is false.
func (r Request) Test() (st Status, done bool, err error) {
	if r.h.Empty() {
		return Status{}, true, nil
	}
	st, done, err = r.c.e.Test(r.h)
	return st, done, r.c.notify(err)
}

// Cancel takes back a receive that has not been matched with a message: its request completes with
// Status.Cancelled, and must be waited for as usual. A receive that has been matched completes
// normally; one that is pending for a failure has not been matched. Sends are not affected: a
// message in flight may be matched at any time.
func (r Request) Cancel() {
	if r.c != nil {
		r.c.e.Cancel(r.h)
	}
}

// WaitAll waits for all requests and sets them to the zero Request. It returns the first error in
// their order. All have ended when it returns, except those that are ErrProcFailedPending (see
// [Request.Wait]), which stay in the slice.
func WaitAll(reqs []Request) error {
	var failed failures
	var locked *p2p.Engine
	for i := range reqs {
		r := reqs[i]
		if r.h.Empty() {
			reqs[i].c = nil // the rest is zero: sends are many, stores are not free
			continue
		}
		reqs[i] = Request{}
		if e := r.c.e; e != locked {
			if locked != nil {
				locked.Unlock()
			}
			e.Lock()
			locked = e
		}
		_, err := locked.Take(r.h)
		if err != nil && locked.State(r.h) != p2p.Ended {
			locked.Poll() // what it waits for may have arrived
			if _, err = locked.Take(r.h); locked.State(r.h) != p2p.Ended {
				reqs[i] = r
			}
		}
		if err != nil {
			failed = append(failed, failure{r.c, err})
		}
	}
	if locked != nil {
		locked.Unlock()
	}
	return failed.notify()
}

// The calls on several requests treat inactive ones as MPI does: zero Requests and those that have
// ended are ignored, and if none is active there is nothing to wait for. A call that ends a request
// sets it to the zero Request in the slice. Request.Wait does not: set it yourself, or it may be
// reported once more as a success. No other goroutine may wait for one of them meanwhile.
//
// A receive from AnySource that is pending for a failure has not ended (see [Request.Wait]). It is
// reported with ErrProcFailedPending if no other request can be, stays in the slice, and is
// reported again by the next call until the failure has been acknowledged or the receive matched.

// WaitAny waits until one of the requests is complete, ends it, and returns its index and outcome.
// If several are complete it takes the first. The index is -1 if none is active.
func WaitAny(reqs []Request) (index int, st Status, err error) {
	return WaitAnyContext(context.Background(), reqs)
}

// TestAny makes progress and ends the first request that is complete, if one is. If none is active
// done is true and the index -1.
func TestAny(reqs []Request) (index int, st Status, done bool, err error) {
	e, err := engine(reqs)
	if e == nil {
		return -1, Status{}, err == nil, err
	}
	e.Lock()
	e.Poll()
	i, pending := look(e, reqs)
	done = pending == 0
	var c *Comm
	if i >= 0 {
		c = reqs[i].c
		st, err = take(reqs, i)
		done = reqs[i].c == nil
	}
	e.Unlock()
	if err != nil {
		c.tell(err)
	}
	return i, st, done, err
}

// TestAll makes progress and, if every request is complete, ends them all as WaitAll does; else it
// ends none. The error is that of a receive that is ErrProcFailedPending, if none has ended.
func TestAll(reqs []Request) (done bool, err error) {
	e, err := engine(reqs)
	if e == nil {
		return err == nil, err
	}
	e.Lock()
	e.Poll()
	var failed failures
	if _, pending := look(e, reqs); pending > 0 {
		for i := range reqs {
			if c := reqs[i].c; reqs[i].state(e) == p2p.InDoubt {
				_, err := take(reqs, i)
				failed = failures{{c, err}}
				break
			}
		}
		e.Unlock()
		return false, failed.notify()
	}
	for i := range reqs {
		c := reqs[i].c
		if _, err := take(reqs, i); err != nil {
			failed = append(failed, failure{c, err})
		}
	}
	e.Unlock()
	return true, failed.notify()
}

// Outcome is the outcome of one of several requests.
type Outcome struct {
	Index  int // in the slice of requests
	Status Status
	Err    error
}

// WaitSome waits until at least one of the requests is complete, ends all that are, and appends
// their outcomes to out. It appends nothing if none is active. The error is a misuse; errors of
// requests are in their outcomes.
func WaitSome(reqs []Request, out []Outcome) ([]Outcome, error) {
	return WaitSomeContext(context.Background(), reqs, out)
}

// TestSome makes progress, ends the requests that are complete, and appends their outcomes to out.
// active is the number of remaining ones.
func TestSome(reqs []Request, out []Outcome) (more []Outcome, active int, err error) {
	e, err := engine(reqs)
	if e == nil {
		return out, 0, err
	}
	e.Lock()
	e.Poll()
	_, active = look(e, reqs)
	out, failed := takeComplete(e, reqs, out)
	e.Unlock()
	_ = failed.notify()
	return out, active, nil
}

// engine gives the engine of the requests, which is one; nil if all are zero.
func engine(reqs []Request) (*p2p.Engine, error) {
	var e *p2p.Engine
	for i := range reqs {
		switch c := reqs[i].c; {
		case c == nil || c.e == e:
		case e == nil:
			e = c.e
		default:
			return nil, fmt.Errorf("banyan: %w: request %d belongs to another World", ErrArgument, i)
		}
	}
	return e, nil
}

// state is p2p's, but a zero Request has ended. Precondition: e's lock is held.
func (r Request) state(e *p2p.Engine) p2p.State {
	if r.c == nil {
		return p2p.Ended
	}
	return e.State(r.h)
}

// look finds the first request that is complete, or else the first that is in doubt, or else -1,
// and how many are under way, with those in doubt and those after the first.
func look(e *p2p.Engine, reqs []Request) (first, pending int) {
	first = -1
	doubt := -1
	for i := range reqs {
		switch reqs[i].state(e) {
		case p2p.Pending:
			pending++
		case p2p.InDoubt:
			pending++
			if doubt < 0 {
				doubt = i
			}
		case p2p.Complete:
			if first < 0 {
				first = i
			}
		}
	}
	if first < 0 {
		first = doubt
	}
	return first, pending
}

// awaitOne waits until a request is complete or in doubt, and gives its index, or -1 if none is
// active or the context ends first. It is one wait for any number of requests: each finishes the
// watch's completion with its own.
func awaitOne(ctx context.Context, e *p2p.Engine, reqs []Request) int {
	for polled := false; ; {
		i, pending := look(e, reqs)
		if i >= 0 && !polled && reqs[i].state(e) == p2p.InDoubt {
			polled = true
			e.Poll() // one may complete
			continue
		}
		if i >= 0 || pending == 0 || ctx.Err() != nil {
			return i
		}
		w := e.NewWatch()
		for i := range reqs {
			if reqs[i].state(e) == p2p.Pending {
				w.Add(reqs[i].h)
			}
		}
		watch(ctx, e, w)
		for i := range reqs {
			w.Drop(reqs[i].h)
		}
		w.Free()
	}
}

// take ends a request that is complete or has ended, and reports one in doubt.
func take(reqs []Request, i int) (Status, error) {
	r := reqs[i]
	if r.c == nil {
		return Status{}, nil
	}
	st, err := r.c.e.Take(r.h)
	if err == nil || r.state(r.c.e) == p2p.Ended {
		reqs[i] = Request{}
	}
	return st, err
}

func takeComplete(e *p2p.Engine, reqs []Request, out []Outcome) (more []Outcome, failed failures) {
	for i := range reqs {
		if s := reqs[i].state(e); s == p2p.Complete || s == p2p.InDoubt {
			c := reqs[i].c
			st, err := take(reqs, i)
			out = append(out, Outcome{i, st, err})
			if err != nil {
				failed = append(failed, failure{c, err})
			}
		}
	}
	return out, failed
}

// Persistent is a send or receive that is described once and started many times. Each start is
// waited for before the next. Only one goroutine at a time may use it.
type Persistent struct {
	begin func(*Comm, []byte, int, int) Request // nil once freed
	c     *Comm
	buf   []byte
	peer  int
	tag   int
	round Request // the last start
}

// errNoPersistent is the error of the zero Persistent.
var errNoPersistent = fmt.Errorf("%w: no persistent request: SendInit, SsendInit and RecvInit make them", ErrArgument)

// SendInit describes a standard send of buf. Nothing is checked or sent before
// Start.
func (c *Comm) SendInit(buf []byte, dst, tag int) *Persistent {
	c = c.valid()
	return &Persistent{begin: (*Comm).Isend, c: c, buf: buf, peer: dst, tag: tag}
}

// SsendInit describes a synchronous send of buf.
func (c *Comm) SsendInit(buf []byte, dst, tag int) *Persistent {
	c = c.valid()
	return &Persistent{begin: (*Comm).Issend, c: c, buf: buf, peer: dst, tag: tag}
}

// RecvInit describes a receive into buf.
func (c *Comm) RecvInit(buf []byte, src, tag int) *Persistent {
	c = c.valid()
	return &Persistent{begin: (*Comm).Irecv, c: c, buf: buf, peer: src, tag: tag}
}

// Start starts the operation once more and gives the request of this round, to be waited for alone
// or with others; Wait does the same. As of Isend and Irecv errors are the request's: ErrArgument
// if the round before has not been waited for, ErrClosed after Free.
func (p *Persistent) Start() Request {
	if p == nil || p.c == nil {
		return absent().failed(fmt.Errorf("start: %w", errNoPersistent))
	}
	switch {
	case p.begin == nil:
		return p.c.failed(fmt.Errorf("start on %s: %w: the persistent request has been freed", p.c.Name(), ErrClosed))
	case p.active():
		return p.c.failed(fmt.Errorf("start on %s: %w: the persistent request is active: wait for it first",
			p.c.Name(), ErrArgument))
	}
	p.round = p.begin(p.c, p.buf, p.peer, p.tag)
	return p.round
}

// failed gives a request that has ended with err.
func (c *Comm) failed(err error) Request { return Request{c.e.Failed(c.core, err), c} }

// active reports whether the last start has not been waited for.
func (p *Persistent) active() bool {
	e := p.c.e
	e.Lock()
	defer e.Unlock()
	return !p.round.h.Empty() && p.round.state(e) != p2p.Ended
}

// Wait waits for the operation that was started last, and returns its outcome. It returns at once
// if that has been waited for, or none was started.
func (p *Persistent) Wait() (Status, error) {
	switch {
	case p == nil || p.c == nil:
		return Status{}, fmt.Errorf("wait: %w", errNoPersistent)
	case p.round.c == nil:
		return Status{}, nil
	}
	st, err := p.round.Wait()
	if err == nil || !p.active() { // else it is pending
		p.round = Request{}
	}
	return st, err
}

// Free releases the buffer. Error: ErrArgument while the operation is active.
func (p *Persistent) Free() error {
	if p == nil || p.c == nil {
		return fmt.Errorf("free: %w", errNoPersistent)
	}
	if p.active() {
		return p.c.notify(fmt.Errorf("free on %s: %w: the persistent request is active: wait for it first",
			p.c.Name(), ErrArgument))
	}
	p.begin, p.buf, p.round = nil, nil, Request{}
	return nil
}

// StartAll starts them in order and puts the requests of this round into reqs, as far as there is
// room: Persistent.Wait waits for the others.
func StartAll(ps []*Persistent, reqs []Request) {
	for i, p := range ps {
		if r := p.Start(); i < len(reqs) {
			reqs[i] = r
		}
	}
}
