package banyan

import (
	"errors"
	"fmt"

	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/internal/debug"
	"github.com/banyan-hpc/banyan/p2p"
)

// Request is an operation under way. It is a small value; copies name the same operation. It ends
// when a call has waited for it, or has tested that it is complete. After that, and for the zero
// Request, Wait returns at once.
type Request struct {
	h p2p.Handle
	c *Comm
}

// Wait returns when the operation is complete, with its outcome. The Status is meaningful for
// receives only. Errors as for Send and Recv, and ErrProcFailedPending: a rank has failed that might
// have sent the message for this receive from AnySource. Then the request is still active.
// Acknowledge the failure ([Comm.AckFailed]) and wait again; or wait without acknowledging, which
// returns the error again unless a message has come; or cancel the request and wait.
//
// The context of the communicator ends the wait ([Comm.WithContext]). A receive that has not been
// matched is then cancelled and has ended. A send stays under way: wait for it again, with another
// context ([Request.WithContext]), before changing its buffer. The same applies to operations of
// several ranks (Iagree, Ishrink, Ivalidate, collectives).
func (r Request) Wait() (Status, error) {
	if r.h.Empty() {
		return Status{}, nil
	}
	st, err := r.c.e.Wait(r.h)
	if err != nil {
		return r.unfinished(st, err)
	}
	return st, nil
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

// Cancel cancels a receive that has not been matched with a message: its request completes with
// Status.Cancelled, and must be waited for as usual. A receive that has been matched completes
// normally; one that is pending for a failure has not been matched. Sends are not affected: a
// message under way may be matched at any time.
func (r Request) Cancel() {
	if r.c != nil {
		r.c.e.Cancel(r.h)
	}
}

// WaitAll waits for all requests and sets them to the zero Request. It returns the first error in
// their order. All have ended when it returns, except those that are ErrProcFailedPending (see
// [Request.Wait]), which stay in the slice.
//
// It waits for them in their order, until the context of any request that was active at the call ends.
// Then all are treated as by Request.Wait: receives that have not been matched are cancelled, and the
// other operations under way stay in the slice.
func WaitAll(reqs []Request) error {
	if cs, err := contextsOf(reqs); cs != nil || err != nil {
		if err == nil {
			err = waitBound(cs, reqs, nil)
		}
		return err
	}
	var failed failures
	var locked *p2p.Engine
	for i := range reqs {
		r := reqs[i]
		if r.h.Empty() {
			reqs[i].c = nil // the other fields are zero already; stores take time for many sends
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
			locked.Poll() // the message of the next request may have arrived
			if _, err = r.take(); locked.State(r.h) != p2p.Ended {
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
// reported with ErrProcFailedPending if no other request can be reported, stays in the slice, and
// is reported again by the next call until the failure has been acknowledged or the receive
// matched.

// WaitAny waits until one of the requests is complete, ends it, and returns its index and outcome.
// If several are complete it takes the first. Where none is complete it reports a pending one
// ([ErrProcFailedPending]), and so do WaitSome and TestAny. The index is -1 if none is active.
//
// If none is complete when the context of any of them ends, all stay as they are, and the index is -1.
// If several contexts have ended, the error is that of the first in the order of the requests.
func WaitAny(reqs []Request) (index int, st Status, err error) {
	e, err := engine(reqs)
	if e == nil {
		return -1, Status{}, err
	}
	cs, err := contextsOf(reqs)
	if err != nil {
		return -1, Status{}, err
	}
	e.Lock()
	i := awaitOne(cs, e, reqs)
	if i < 0 {
		err = underWay(cs, "WaitAny", e, reqs)
		e.Unlock()
		return i, Status{}, err
	}
	c := reqs[i].c
	st, err = take(reqs, i)
	e.Unlock()
	return i, st, c.notify(err)
}

// TestAny makes progress and ends the first request that is complete, if one is. If none is active,
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

// TestAll makes progress and, if every request is complete, ends them all as WaitAll does;
// otherwise it ends none. The error is that of a receive that is ErrProcFailedPending, if none has
// ended.
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

// WaitSome waits until at least one of the requests is complete, ends all complete ones, and appends
// their outcomes to out. It appends nothing if none is active. The error reports a misuse, or the end
// of a context as in WaitAny; then nothing is appended. Errors of requests are in their outcomes.
func WaitSome(reqs []Request, out []Outcome) ([]Outcome, error) {
	e, err := engine(reqs)
	if e == nil {
		return out, err
	}
	cs, err := contextsOf(reqs)
	if err != nil {
		return out, err
	}
	e.Lock()
	if awaitOne(cs, e, reqs) < 0 {
		err = underWay(cs, "WaitSome", e, reqs)
	}
	out, failed := takeComplete(e, reqs, out)
	e.Unlock()
	_ = failed.notify()
	return out, err
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

// engine returns the engine that all the requests belong to; nil if all are zero.
func engine(reqs []Request) (*p2p.Engine, error) {
	var e *p2p.Engine
	for i := range reqs {
		switch c := reqs[i].c; {
		case c == nil || c.e == e:
		case e == nil:
			e = c.e
		default:
			return nil, misuse("Wait", fmt.Errorf("%w: request %d belongs to another World", ErrArgument, i))
		}
	}
	return e, nil
}

// state is the engine's state of a request; a zero Request has ended. Precondition: e's lock is
// held.
func (r Request) state(e *p2p.Engine) p2p.State {
	if r.c == nil {
		return p2p.Ended
	}
	return e.State(r.h)
}

// look finds the first request that is complete, or else the first that is in doubt, or else -1.
// Pending is the number of requests under way, with those in doubt and those after the first.
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

// awaitOne waits until a request is complete or in doubt, and returns its index, or -1 if none is
// active or a context ends first. It is one wait for any number of requests: each of them also
// completes the watch.
func awaitOne(cs contexts, e *p2p.Engine, reqs []Request) int {
	for polled := false; ; {
		i, pending := look(e, reqs)
		if i >= 0 && !polled && reqs[i].state(e) == p2p.InDoubt {
			polled = true
			e.Poll() // it may complete one
			continue
		}
		if i >= 0 || pending == 0 || cs.err() != nil {
			return i
		}
		w := e.NewWatch()
		for i := range reqs {
			if reqs[i].state(e) == p2p.Pending {
				w.Add(reqs[i].h)
			}
		}
		watch(cs, e, w)
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

// failed returns a request that has ended with the error of an operation and a cause.
func (c *Comm) failed(op string, cause error, args ...ft.Arg) Request {
	c = c.valid()
	return Request{c.e.Failed(c.core, c.opError(op, cause, args...)), c}
}

// checkedLend lends a copy behind a header, in memory of Alloc if that has room.
func (c *Comm) checkedLend(buf []byte, dst, tag int) Request {
	call := c.calls("lend of %d bytes to rank %d, tag %d", len(buf), dst, tag)
	log, pool := c.world.checks, c.world.job.Heap
	number, sum := log.Open(call), debug.Sum(buf)
	room, full := pool.Alloc(debug.Header + len(buf))
	if full != nil {
		room = debug.Room(len(buf))
	}
	log.Lent(buf)
	h := p2p.Lend[p2p.Aware](c.core, debug.FrameIn(room, buf, debug.Bytes), dst, tag)
	return Request{c.e.Wrap(h, func(st Status, err error) (Status, error) {
		log.Close(number)
		log.Back(buf)
		if full == nil {
			_ = pool.Free(room) // room is of Alloc, so Free succeeds
		}
		if err == nil {
			err = c.opError("Send", debug.Unchanged(call, buf, sum), arg("dst", dst), arg("tag", tag), arg("bytes", len(buf)))
		} else if framed, ok := err.(*OpError); ok {
			own := *framed
			own.Args[2].Value, err = len(buf), &own
		}
		return st, err
	}), c}
}

// checkedBorrow removes the header of a loan, and lists the loan until its return.
func (c *Comm) checkedBorrow(l *Loan) (*Loan, error) {
	st := l.Status()
	call := c.calls("borrow of %d bytes from rank %d, tag %d", c.payload(st.Count), st.Source, st.Tag)
	if err := c.sameType(call, l.Bytes(), debug.Bytes, st); err != nil {
		return nil, errors.Join(c.notifyOf("Borrow", err), l.Return())
	}
	number := c.world.checks.Open(call)
	p2p.TrimLoan(l, debug.Header, func() { c.world.checks.Close(number) })
	return l, nil
}
