package p2p

// Promise is a request of a layer above: what it stands for is done elsewhere, and it is
// waited for, tested and put into sets like any other.
type Promise struct{ r *Request }

// NewPromise makes one of an operation on c. Precondition: the lock is held.
func (e *Engine) NewPromise(c *Comm) (Promise, Handle) {
	r := e.newRequest(c, reqAbove, nil)
	return Promise{r}, Handle{r, r.gen}
}

// Keep ends the request with an error, or nil. It is called once. Precondition: the lock is held.
func (p Promise) Keep(err error) { p.r.fail(err) }
