package p2p

import (
	"fmt"

	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// The functions below return causes. An operation returns an [ft.OpError] around one, which opError
// makes.

// opError is the error of a message's operation on the communicator, with its arguments.
func (c *Comm) opError(kind reqKind, peer, tag, bytes int, cause error) error {
	e := c.OpError(kind.String())
	e.Peer, e.Args, e.Err = peer, messageArgs(kind, peer, tag, bytes), cause
	return e
}

// messageArgs are the arguments of a message's operation.
func messageArgs(kind reqKind, peer, tag, bytes int) ft.Args {
	if kind == reqSend {
		return ft.Args{{Name: "dst", Value: peer}, {Name: "tag", Value: tag}, {Name: "bytes", Value: bytes}}
	}
	return ft.Args{{Name: "src", Value: peer}, {Name: "tag", Value: tag}}
}

// OpError is the error of an operation on the communicator, or on that of its collectives, without
// arguments and cause. Any goroutine may call it.
func (c *Comm) OpError(op string) *ft.OpError {
	e := new(ft.OpError)
	c.describe(e, op)
	return e
}

func (c *Comm) describe(e *ft.OpError, op string) {
	rank := int(c.rank)
	if c.parent != nil {
		rank = int(c.parent.rank)
	}
	*e = ft.OpError{Op: op, Comm: c.Name(), Rank: rank, Peer: ft.NoPeer}
}

// opError is the error of a request.
func (r *Request) opError(cause error) error {
	var e *ft.OpError
	if cause == ft.ErrRevoked {
		e, r.comm.e.revoked.spare = r.comm.e.revoked.spare, nil
	}
	if e == nil {
		e = new(ft.OpError)
	}
	r.describe(e)
	if r.kind == reqPromise {
		return ft.ErrorOf(e, cause)
	}
	e.Err = cause
	return e
}

// describe fills in the operation, with its peer, tag and communicator.
func (r *Request) describe(e *ft.OpError) {
	if r.kind == reqPromise {
		r.comm.describe(e, r.op)
		return
	}
	r.comm.describe(e, r.kind.String())
	if id := r.peer(); id != proc.None {
		e.Peer = r.comm.originalRank(id)
	}
	named := e.Peer
	if r.kind != reqSend && r.src == proc.None {
		named = AnySource
	}
	e.Args = messageArgs(r.kind, named, int(int32(uint32(r.imm))), len(r.buf))
}

var (
	errFreed = fmt.Errorf("%w: the communicator has been freed", ft.ErrClosed)
	// errValidated: a collective was under way when a validate ended.
	errValidated = fmt.Errorf("%w: it belongs to a collective that ran beside a validate of the communicator: "+
		"wait for it before you validate", ft.ErrArgument)
	errNotMember = fmt.Errorf("%w: this process is not in the group", ft.ErrArgument)
)

func departed(rank int) error { return fmt.Errorf("rank %d: %w", rank, ft.ErrDeparted) }

// checkState is the slow half of the check at the start of an operation: the state word was not
// zero. With an unacknowledged failure, operations that do not need the failed rank go on.
//
// Precondition: the lock is not held.
func (c *Comm) checkState(wild bool) error {
	c.e.p.Lock()
	defer c.e.p.Unlock()
	if err := c.check(); err != nil {
		return err
	}
	if wild && c.profile == RunThrough && c.hasUnacknowledged() {
		return c.unacknowledgedError(false) // Hursey & Graham §3.1; under ULFM the receive starts
	}
	return nil
}

// check repeats the check at the start of an operation under the lock: the state may have changed
// since then. Under run-through stabilization a collective needs all members, so its messages
// between living ranks fail as well.
//
// Precondition: the lock is held.
func (c *Comm) check() error {
	switch s := c.state.Load(); {
	case s == 0:
		return nil
	case s&stateFreed != 0 && c.parent != nil && c.parent.state.Load()&stateFreed == 0:
		if s&stateFailed != 0 {
			return c.failedMembersError() // that failure was the reason for the validate
		}
		return errValidated
	case s&stateFreed != 0:
		return errFreed
	case s&stateFinal != 0:
		return c.e.closedErr
	case s&stateRevoked != 0:
		return c.revokedError()
	case c.parent != nil && s&stateFailed != 0 && c.parent.profile == RunThrough:
		return c.failedMembersError()
	}
	return nil
}

// failedMembersError names all failed members. Precondition: the lock is held.
func (c *Comm) failedMembersError() *ft.ProcFailedError {
	failed := new(ft.ProcFailedError)
	for p := range c.e.p.View().Set().All() {
		if c.has(p) {
			c.addFailed(failed, p)
		}
	}
	return failed
}

// addFailed adds a failed member to an error, by its rank among the peers or, in an
// intercommunicator, by its rank on this side.
//
// Precondition: the lock is held.
func (c *Comm) addFailed(failed *ft.ProcFailedError, p proc.ID) {
	if c.parent != nil {
		c = c.parent
	}
	if rank := c.peers.Rank(p); rank >= 0 {
		failed.Ranks = append(failed.Ranks, rank)
	} else {
		failed.Local = append(failed.Local, c.group.Rank(p))
	}
	failed.Cause = c.e.p.View().Cause(p)
}

func (c *Comm) badRank(rank int) error {
	return fmt.Errorf("%w: rank %d, want 0 … %d", ft.ErrArgument, rank, c.peers.size-1)
}

func badTag(tag int) error {
	return fmt.Errorf("%w: tag %d, want 0 … %d", ft.ErrArgument, tag, MaxTag)
}

// peerEndedError is the error of an operation whose peer is not alive.
func (c *Comm) peerEndedError(l *link) error {
	if !c.e.p.View().Failed(l.peer) {
		return departed(c.originalRank(l.peer))
	}
	if c.cause != proc.None || c.errors != ErrorsLocal && c.state.Load()&stateRevoked != 0 {
		return c.revokedError() // in this range a failure revokes the communicator; another member may report it first
	}
	failed := new(ft.ProcFailedError)
	c.addFailed(failed, l.peer)
	return failed
}

// FailedError is the cause of an error that names the given failed members. Precondition: the
// lock is held.
func (c *Comm) FailedError(failed []proc.ID) error {
	e := new(ft.ProcFailedError)
	for _, p := range failed {
		c.addFailed(e, p)
	}
	return e
}

// Unrevoked is the check of operations that derive a communicator: nil, ft.ErrRevoked or
// ft.ErrClosed (ULFM 17.3.1).
func (c *Comm) Unrevoked() error {
	if c.state.Load()&(stateRevoked|stateFreed|stateFinal) == 0 {
		return nil
	}
	c.e.p.Lock()
	defer c.e.p.Unlock()
	return c.check()
}

// UnrevokedLocked is Unrevoked with the lock held.
func (c *Comm) UnrevokedLocked() error {
	if c.state.Load()&(stateRevoked|stateFreed|stateFinal) == 0 {
		return nil
	}
	return c.check()
}

// RevokedLocked is the error of operations that only a revocation ends, or nil: they were called before the
// communicator was freed. Precondition: the lock is held.
func (c *Comm) RevokedLocked() error {
	if c.state.Load()&stateRevoked == 0 {
		return nil
	}
	return c.revokedError()
}

// FailedIn is the error that names the known failed members of g, or nil.
func (c *Comm) FailedIn(g Group) error {
	c.e.p.Lock()
	defer c.e.p.Unlock()
	var failed []proc.ID
	for p := range c.e.p.View().Set().All() {
		if g.Has(p) {
			failed = append(failed, p)
		}
	}
	if failed == nil {
		return nil
	}
	return c.FailedError(failed)
}

// Usable is the check of operations that neither a revocation nor a failure stops: nil or
// ft.ErrClosed.
//
// Precondition: the lock is held.
func (c *Comm) Usable() error {
	switch s := c.state.Load(); {
	case s&stateFreed != 0:
		return errFreed
	case s&stateFinal != 0:
		return c.e.closedErr
	}
	return nil
}

// Lost is the error of an operation that needs a rank of Peers that is agreed to have ended.
func (c *Comm) Lost(rank int) error {
	c.e.p.Lock()
	defer c.e.p.Unlock()
	if p := c.peers.Proc(rank); c.e.p.View().Failed(p) {
		return c.FailedError([]proc.ID{p})
	}
	return departed(rank)
}
