package p2p

import (
	"fmt"

	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
)

// A receive from any source cannot know whether the dead would have been the one
// to send. So the death of a possible sender puts it in doubt: whoever waits for it
// gets ErrProcFailedPending, each time, until the application has acknowledged the
// failure. The receive itself goes on. It stays in the queue of posted ones
// where it is, is matched if a message comes, and can be taken back (S1-13, S4-13,
// S4-14). Calls that block and probes cannot leave anything behind: they end, with
// ErrProcFailed.
//
// A request in doubt has a completion that is done, so that waiters wake and
// look; a match or an acknowledgement takes that back.

// suspend has waits for a posted receive end. Precondition: it is in the queue.
func (r *Request) suspend() {
	r.pending = true
	r.Finish()
}

// resume ends the doubt: a message has been matched, or the failures have been
// acknowledged.
func (r *Request) resume() {
	r.pending = false
	r.Reopen()
}

// unpost takes a receive out of the queue, in doubt or not.
func (e *Engine) unpost(r *Request) {
	e.posted.remove(r)
	r.pending = false
}

// inDoubtAfter reports whether the end of l's peer leaves a receive or probe without
// knowing whether its message will come: the failed is one of those that it may be
// from.
func (r *Request) inDoubtAfter(l *link, cause proc.Cause) bool {
	return cause.Failed() && r.src == proc.None && r.comm.peers.Rank(l.peer) >= 0
}

// waitBlocking waits for a request of a call that blocks.
func (e *Engine) waitBlocking(h Handle) (Status, error) {
	e.p.Lock()
	defer e.p.Unlock()
	return e.TakeBlocking(h)
}

// TakeBlocking is Take for calls that block: a receive that would stay pending is taken
// back and ends with ft.ErrProcFailed. Precondition: the lock is held.
func (e *Engine) TakeBlocking(h Handle) (Status, error) {
	st, err := e.Take(h)
	if err == nil || h.r.gen != h.gen || !h.r.pending {
		return st, err
	}
	err = h.r.comm.unacknowledgedError(h.r.kind.String(), false)
	e.cancel(h.r)
	e.recycle(h.r)
	return Status{}, err
}

// hasUnacknowledged reports whether there is a peer that has failed and has not been
// acknowledged. Of an intercommunicator those of the other side count: nobody
// else sends. Precondition: the lock is held.
func (c *Comm) hasUnacknowledged() bool {
	if c.state.Load()&stateFailed == 0 {
		return false
	}
	for _, p := range c.failedMembers()[c.acked:] {
		if c.peers.Rank(p) >= 0 {
			return true
		}
	}
	return false
}

// unacknowledgedError is the error that names the peers that have failed and have not been
// acknowledged: of an operation that has ended or, if pending, has not.
// Precondition: the lock is held.
func (c *Comm) unacknowledgedError(op string, pending bool) error {
	e := &ft.ProcFailedError{Op: op + " from any source", Comm: c.Name(), Pending: pending}
	for _, p := range c.failedMembers()[c.acked:] {
		if c.peers.Rank(p) >= 0 {
			c.addFailed(e, p)
		}
	}
	return e
}

// wildcardImpossible is the error of a wildcard when no peer is left to send, and none of
// them has failed without the application saying that it knows.
func (c *Comm) wildcardImpossible(op string) error {
	if c.hasUnacknowledged() {
		return nil
	}
	failed := false
	for rank := range c.reach {
		l := c.e.findLink(c.peers.Proc(rank))
		if l == nil || l.ep.State == progress.Alive {
			return nil
		}
		failed = failed || l.ep.State == progress.Failed
	}
	if failed {
		return c.failedMembersError(op + " from any source")
	}
	return fmt.Errorf("%s on %s from any source: %w", op, c.name, errNoOtherRank)
}

// nullStatus is what a receive from nobody gets.
var nullStatus = Status{Source: ProcNull, Tag: AnyTag}

// nullRecv gives a receive from nobody, or a probe for it. Precondition: the lock is
// held.
func (e *Engine) nullRecv(c *Comm) Handle {
	r := e.newRequest(c, reqNull, nil)
	r.cancelled = true // no message, and no error
	r.Finish()
	return Handle{r, r.gen}
}
