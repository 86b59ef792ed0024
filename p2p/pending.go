package p2p

import (
	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
)

// A receive from any source cannot know whether a failed rank would have been its sender. So the
// failure of a possible sender puts it in doubt: a wait returns ErrProcFailedPending, each time,
// until the application has acknowledged the failure. The receive itself stays active. It keeps its
// place in the posted queue, can be matched, and can be cancelled (ULFM 17.2.2). Blocking calls and
// probes cannot leave a request behind: they end, with ErrProcFailed.
//
// The completion of a request in doubt is done, so that waiting goroutines wake and check; a match
// or an acknowledgement reopens it.

// suspend puts a posted receive in doubt. Precondition: it is in the queue.
func (r *Request) suspend() {
	r.pending = true
	r.Finish()
}

// resume ends the doubt: a message has been matched, or the failures have been acknowledged.
func (r *Request) resume() {
	r.pending = false
	r.Reopen()
}

// unpost removes a receive from the queue, in doubt or not.
func (e *Engine) unpost(r *Request) {
	e.posted.remove(r)
	r.pending = false
}

// inDoubtAfter reports whether the end of l's peer puts a receive or probe in doubt: the peer may
// have been its sender.
func (r *Request) inDoubtAfter(l *link, cause proc.Cause) bool {
	return cause.Failed() && r.src == proc.None && r.comm.peers.Rank(l.peer) >= 0
}

// waitBlocking waits for the request of a blocking call.
func (e *Engine) waitBlocking(h Handle) (Status, error) {
	e.p.Lock()
	defer e.p.Unlock()
	return e.TakeBlocking(h)
}

// TakeBlocking is Take for blocking calls: a receive in doubt is cancelled and ends with
// ft.ErrProcFailed.
//
// Precondition: the lock is held.
func (e *Engine) TakeBlocking(h Handle) (Status, error) {
	st, err := e.Take(h)
	if err == nil || h.r.gen != h.gen || !h.r.pending {
		return e.takeBlockingStale(h, st, err)
	}
	err = h.r.opError(h.r.comm.unacknowledgedError(false))
	e.cancel(h.r)
	e.recycle(h.r)
	return Status{}, err
}

// hasUnacknowledged reports whether a peer has an unacknowledged failure. In an intercommunicator
// only the remote side counts, since only it sends.
//
// Precondition: the lock is held.
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

// unacknowledgedError names the peers with unacknowledged failures; pending: the operation has not
// ended.
//
// Precondition: the lock is held.
func (c *Comm) unacknowledgedError(pending bool) error {
	e := &ft.ProcFailedError{Pending: pending}
	for _, p := range c.failedMembers()[c.acked:] {
		if c.peers.Rank(p) >= 0 {
			c.addFailed(e, p)
		}
	}
	return e
}

// wildcardImpossible is the error of a wildcard when no peer is alive and no failure is
// unacknowledged; else nil.
func (c *Comm) wildcardImpossible() error {
	if c.hasUnacknowledged() {
		return nil
	}
	failed := false
	for rank := range c.peers.size {
		ep := c.e.p.Known(c.peers.Proc(rank))
		if ep == nil || ep.State == progress.Alive {
			return nil
		}
		failed = failed || ep.State == progress.Failed
	}
	if failed {
		return c.failedMembersError()
	}
	return errNoOtherRank
}

// nullStatus is the status of a receive from a null rank.
var nullStatus = Status{Source: ProcNull, Tag: AnyTag}

// nullRecv returns a completed receive from a null rank, or a probe for it. Precondition: the lock
// is held.
func (e *Engine) nullRecv(c *Comm) Handle {
	r := e.newRequest(c, reqNull, nil)
	r.special = cancelled // no message, and no error
	r.Finish()
	return Handle{r, r.gen}
}
