package p2p

import "github.com/banyan-hpc/banyan/ft"

// Promise is the completing side of a request of a layer above. The request is waited for and
// tested like any other. Neither a revocation nor a free ends it; Close does.
type Promise struct {
	e *Engine
	h Handle
}

// NewPromise makes a request for an operation on c, with its name in errors. Precondition: the lock is held.
func (e *Engine) NewPromise(c *Comm, op string) (Promise, Handle) {
	r := e.newRequest(c, reqPromise, nil)
	r.op = op
	h := Handle{r, r.gen}
	if c.state.Load()&stateFinal != 0 { // a collective may outlive its caller's wait, and the engine
		r.fail(c.check())
	} else {
		e.promises.push(r)
	}
	return Promise{e, h}, h
}

// NewAgreement is NewPromise for an agreement that the application calls: a goroutine that waits
// for it starts no collective on c.
//
// Precondition: the lock is held.
func (e *Engine) NewAgreement(c *Comm, op string) (Promise, Handle) {
	p, h := e.NewPromise(c, op)
	h.r.ways = agreement
	return p, h
}

// Complete ends the request with nil, the error of an operation, or the cause of one. It does nothing
// if Close has ended it, or p is zero.
//
// Precondition: the lock is held.
func (p Promise) Complete(err error) {
	r := p.h.r
	if r == nil || r.gen != p.h.gen || r.Done() {
		return
	}
	p.e.promises.remove(r)
	if _, whole := err.(*ft.OpError); err == nil || whole {
		r.err = err
		r.Finish()
		return
	}
	r.fail(err)
}
