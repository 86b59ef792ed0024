package banyan

import "github.com/banyan-hpc/banyan/p2p"

// Request is a send or receive under way. It is a small value; copies name the
// same operation. It ends when it has been waited for, or tested to be
// complete; after that, and if it is the zero Request, Wait returns at once.
type Request struct {
	h p2p.Handle
	c *Comm
}

// Wait returns when the operation is complete, with its outcome. The Status
// means something for receives only. Errors as of Send and Recv, and
// ErrProcFailedPending: a rank has failed of which this receive from AnySource may
// have been meant to receive. Then it has not ended: acknowledge the failure
// ([Comm.FailureAck]) and wait again, wait again without (the error comes again,
// unless a message has), or cancel it and wait.
func (r Request) Wait() (Status, error) {
	if r.h.Empty() {
		return Status{}, nil
	}
	st, err := r.c.e.Wait(r.h)
	return st, r.c.raise(err)
}

// Test makes progress and reports whether the operation is complete; if so it
// has ended, as by Wait. With ErrProcFailedPending it has not: done is false.
func (r Request) Test() (st Status, done bool, err error) {
	if r.h.Empty() {
		return Status{}, true, nil
	}
	st, done, err = r.c.e.Test(r.h)
	return st, done, r.c.raise(err)
}

// Cancel takes back a receive that has not been matched with a message: its
// request completes, with Status.Cancelled, and is to be waited for as always.
// A receive that has been matched completes normally; one that is pending for a
// failure has not been. On sends it has no effect: what has gone out may be matched
// at any time.
func (r Request) Cancel() {
	if r.c != nil {
		r.c.e.Cancel(r.h)
	}
}

// WaitAll waits for all requests and sets them to the zero Request. It returns
// the first error in their order; all have ended when it returns, but those that
// are ErrProcFailedPending (see [Request.Wait]), which stay in the slice.
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
	return failed.raise()
}
