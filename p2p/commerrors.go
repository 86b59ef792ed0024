package p2p

import (
	"fmt"

	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// checkState is the slow half of the check at the start of an operation: the state word was not
// zero. With an unacknowledged failure, operations that do not need the failed rank go on.
//
// Precondition: the lock is not held.
func (c *Comm) checkState(op string, wild bool) error {
	c.e.p.Lock()
	defer c.e.p.Unlock()
	if err := c.check(op); err != nil {
		return err
	}
	if wild && c.profile == RunThrough && c.hasUnacknowledged() {
		return c.unacknowledgedError(op, false) // Hursey & Graham §3.1; under ULFM the receive starts
	}
	return nil
}

// check repeats the check at the start of an operation under the lock: the state may have changed
// since then. Under run-through stabilization a collective needs all members, so its messages
// between living ranks fail as well.
//
// Precondition: the lock is held.
func (c *Comm) check(op string) error {
	switch s := c.state.Load(); {
	case s == 0:
		return nil
	case s&stateFreed != 0 && c.parent != nil && c.parent.state.Load()&stateFreed == 0:
		if s&stateFailed != 0 {
			return c.failedMembersError(op) // that failure was the reason for the validate
		}
		return c.validatedError(op)
	case s&stateFreed != 0:
		return fmt.Errorf("%s on %s: %w: the communicator has been freed", op, c.Name(), ft.ErrClosed)
	case s&stateFinal != 0:
		return fmt.Errorf("%s on %s: %w", op, c.Name(), c.e.closedErr)
	case s&stateRevoked != 0:
		return c.revokedError(op)
	case c.parent != nil && s&stateFailed != 0 && c.parent.profile == RunThrough:
		return c.failedMembersError(op)
	}
	return nil
}

// failedMembersError names all failed members. Precondition: the lock is held.
func (c *Comm) failedMembersError(op string) error {
	failed := &ft.ProcFailedError{Op: op, Comm: c.Name()}
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

func (c *Comm) badRank(op string, rank int) error {
	return fmt.Errorf("%s on %s: %w: rank %d, want 0 … %d", op, c.Name(), ft.ErrArgument, rank, c.peers.size-1)
}

func (c *Comm) badTag(op string, tag int) error {
	return fmt.Errorf("%s on %s: %w: tag %d, want 0 … %d", op, c.Name(), ft.ErrArgument, tag, MaxTag)
}

func (c *Comm) badMember(op string) error {
	return fmt.Errorf("%s on %s: %w: this process is not in the group", op, c.Name(), ft.ErrArgument)
}

// peerEndedError is the error of an operation whose peer is not alive.
func (c *Comm) peerEndedError(op string, l *link) error {
	if !c.e.p.View().Failed(l.peer) {
		return fmt.Errorf("%s on %s: rank %d: %w", op, c.Name(), c.originalRank(l.peer), ft.ErrDeparted)
	}
	if c.cause != proc.None {
		return c.revokedError(op) // in this range a failure revokes the communicator
	}
	failed := &ft.ProcFailedError{Op: op, Comm: c.Name()}
	c.addFailed(failed, l.peer)
	return failed
}

// FailedError is the error of an operation that names the given failed members. Precondition: the
// lock is held.
func (c *Comm) FailedError(op string, failed []proc.ID) error {
	e := &ft.ProcFailedError{Op: op, Comm: c.Name()}
	for _, p := range failed {
		c.addFailed(e, p)
	}
	return e
}

// Unrevoked is the check of operations that derive a communicator: nil, ft.ErrRevoked or
// ft.ErrClosed (ULFM 17.3.1).
func (c *Comm) Unrevoked(op string) error {
	if c.state.Load()&(stateRevoked|stateFreed|stateFinal) == 0 {
		return nil
	}
	c.e.p.Lock()
	defer c.e.p.Unlock()
	return c.check(op)
}

// UnrevokedLocked is Unrevoked with the lock held.
func (c *Comm) UnrevokedLocked(op string) error {
	if c.state.Load()&(stateRevoked|stateFreed|stateFinal) == 0 {
		return nil
	}
	return c.check(op)
}

// FailedIn is the error that names the known failed members of g, or nil.
func (c *Comm) FailedIn(op string, g Group) error {
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
	return c.FailedError(op, failed)
}

// Usable is the check of operations that neither a revocation nor a failure stops: nil or
// ft.ErrClosed.
//
// Precondition: the lock is held.
func (c *Comm) Usable(op string) error {
	switch s := c.state.Load(); {
	case s&stateFreed != 0:
		return fmt.Errorf("%s on %s: %w: the communicator has been freed", op, c.Name(), ft.ErrClosed)
	case s&stateFinal != 0:
		return fmt.Errorf("%s on %s: %w", op, c.Name(), c.e.closedErr)
	}
	return nil
}

// Lost is the error of an operation that needs a rank of Peers that is agreed to have ended.
func (c *Comm) Lost(op string, rank int) error {
	c.e.p.Lock()
	defer c.e.p.Unlock()
	if p := c.peers.Proc(rank); c.e.p.View().Failed(p) {
		return c.FailedError(op, []proc.ID{p})
	}
	return fmt.Errorf("%s on %s: rank %d: %w", op, c.Name(), rank, ft.ErrDeparted)
}
