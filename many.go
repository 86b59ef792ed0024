package banyan

import (
	"context"
	"fmt"

	"github.com/banyan-hpc/banyan/p2p"
)

// The calls on several requests treat as MPI does those that are not active:
// zero Requests and those that have ended are passed over, and where none is
// active there is nothing to wait for. A request that a call has ended is set to
// the zero Request in the slice. One that was ended by Request.Wait is not: set
// it yourself, or it may be reported once more as a success. No other goroutine
// may wait for one of them meanwhile.
//
// A receive from AnySource that a failure has put in doubt has not ended (see
// [Request.Wait]): it is reported with ErrProcFailedPending where no other request
// would be, stays in the slice, and is reported again by the next call, until the
// failure has been acknowledged or the receive matched.

// WaitAny waits until one of the requests is complete, ends it, and tells which,
// with its outcome. If several are, it takes the first. The index is -1 if none
// is active.
func WaitAny(reqs []Request) (index int, st Status, err error) {
	return WaitAnyContext(context.Background(), reqs)
}

// TestAny makes progress and ends the first request that is complete, if one
// is. With none active done is true and the index -1.
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

// TestAll makes progress and, if every request is complete, ends them all as
// WaitAll does; else it ends none. The error is that of a receive that is
// ErrProcFailedPending, if none has ended.
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
		return false, failed.raise()
	}
	for i := range reqs {
		c := reqs[i].c
		if _, err := take(reqs, i); err != nil {
			failed = append(failed, failure{c, err})
		}
	}
	e.Unlock()
	return true, failed.raise()
}

// Outcome is how one of several requests ended.
type Outcome struct {
	Index  int // in the slice of requests
	Status Status
	Err    error
}

// WaitSome waits until at least one of the requests is complete, ends all that
// are, and appends how they ended to out. It appends nothing if none is active.
// The error is a misuse; the requests' own are in their outcomes.
func WaitSome(reqs []Request, out []Outcome) ([]Outcome, error) {
	return WaitSomeContext(context.Background(), reqs, out)
}

// TestSome makes progress, ends the requests that are complete, and appends how
// they ended to out. active is how many are left.
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
	_ = failed.raise()
	return out, active, nil
}

// engine gives the one engine of the requests, or nil if all are zero.
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

// look finds the first request that is complete, or else the first that is in
// doubt, or else -1, and how many are under way, those in doubt and after the first
// included.
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

// awaitOne waits until a request is complete, or in doubt, and gives its index, or -1
// if none is active or the context ends first. It is one wait, whatever their number: each has the watch's
// completion finished with its own.
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

// take ends a request that is complete or has ended, and tells of one in doubt.
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
