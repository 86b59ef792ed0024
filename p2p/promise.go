package p2p

// Promise is the completing side of a request of a layer above. The request is waited for and
// tested like any other. Neither a revocation nor a free ends it; Close does.
type Promise struct {
	e *Engine
	h Handle
}

// NewPromise makes a request for an operation on c. Precondition: the lock is held.
func (e *Engine) NewPromise(c *Comm) (Promise, Handle) {
	r := e.newRequest(c, reqPromise, nil)
	h := Handle{r, r.gen}
	if c.state.Load()&stateFinal != 0 { // a collective whose caller has left may outlive the engine
		r.fail(c.check(r.kind.String()))
	} else {
		e.promises.push(r)
	}
	return Promise{e, h}, h
}

// NewAgreement is NewPromise for an agreement that the application calls: a goroutine that waits
// for it starts no collective on c.
//
// Precondition: the lock is held.
func (e *Engine) NewAgreement(c *Comm) (Promise, Handle) {
	p, h := e.NewPromise(c)
	h.r.ways = agreement
	return p, h
}

// Complete ends the request with an error or nil. It does nothing if Close has ended it.
//
// Precondition: the lock is held.
func (p Promise) Complete(err error) {
	r := p.h.r
	if r.gen != p.h.gen || r.Done() {
		return
	}
	p.e.promises.remove(r)
	r.fail(err)
}
