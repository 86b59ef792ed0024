package banyan

import (
	"fmt"

	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/p2p"
)

// Profile is the set of rules that a communicator follows after failures, where the
// documents that propose them differ: [ULFM] or [RTS].
type Profile = p2p.Profile

const (
	// ULFM is user level failure mitigation, the default: each operation with a
	// dead rank is ErrProcFailed, acknowledged or not. A non-blocking receive from
	// AnySource can always be begun; with failures that are not acknowledged it is
	// ErrProcFailedPending when it is waited for.
	ULFM = p2p.ULFM
	// RTS is run-through stabilization: a dead rank that has been acknowledged is as
	// ProcNull. Sends to it succeed and send nothing, receives from it get the
	// Status of ProcNull, and messages of it that have not been received are dropped.
	// A receive or probe from AnySource that is begun with failures that are not
	// acknowledged is ErrProcFailed at once.
	RTS = p2p.RunThrough
)

// SetProfile chooses the rules for this communicator on this rank, in place of the
// job's ([WithProfile]); communicators made from it have the same. Error:
// ErrArgument once a failure has been acknowledged on it.
func (c *Comm) SetProfile(p Profile) error {
	if err := c.present("set profile"); err != nil {
		return err
	}
	return c.raise(c.core.SetProfile(p))
}

// Profile is the set of rules in force.
func (c *Comm) Profile() Profile { return c.valid().core.Profile() }

// The calls that follow are local: they send nothing, and no other rank learns of
// them. Each communicator has acknowledgements of its own; one that is made later has
// none but what was agreed on ([Comm.Validate]). Whatever has been acknowledged, collective operations on a
// communicator with dead ranks are ErrProcFailed until they have been agreed on.

// GetFailed makes progress and gives the ranks of this communicator, of both sides
// of an intercommunicator, that this process knows to have failed, in the order in
// which it learned of them: an earlier result is a prefix of a later one. Their
// ranks here are told by [Group.Translate]; how they ended by the errors of
// operations with them.
func (c *Comm) GetFailed() Group {
	c = c.valid()
	return c.groupOf(c.core.Failed())
}

// AckFailed acknowledges the failures of the first n ranks of what GetFailed gives,
// and returns how many are acknowledged now: more than n if so many were before, fewer
// if no more are known. AckFailed(0) only asks, AckFailed(c.Size()) takes all. Once all
// are acknowledged, receives from AnySource work again, those that were
// pending included, and operations between the living take no longer than before
// the failure.
//
// Errors: ErrArgument, ErrClosed.
func (c *Comm) AckFailed(n int) (int, error) {
	c = c.valid()
	acked, err := c.core.Acknowledge(n)
	return acked, c.raise(err)
}

// FailureAck acknowledges all failures that this process knows of. It is the older
// form of AckFailed: a failure that becomes known between looking and acknowledging is
// acknowledged unseen, so ask FailureGetAcked afterwards. Error: ErrClosed.
func (c *Comm) FailureAck() error {
	c = c.valid()
	_, err := c.AckFailed(proc.MaxIDs)
	return err
}

// FailureGetAcked gives the ranks whose failure has been acknowledged, in the order
// of GetFailed.
func (c *Comm) FailureGetAcked() Group {
	c = c.valid()
	return c.groupOf(c.core.Acknowledged())
}

// GroupFailed gives the ranks of this communicator that this process knows to have
// failed; of an intercommunicator those of this side. It is GetFailed by the name and
// with the sides of run-through stabilization.
func (c *Comm) GroupFailed() Group { return c.GetFailed().Intersection(c.Group()) }

// RemoteGroupFailed is GroupFailed of the other side of an intercommunicator; of other
// communicators the same as GroupFailed.
func (c *Comm) RemoteGroupFailed() Group { return c.GetFailed().Intersection(c.RemoteGroup()) }

// ReenableAnySource acknowledges all failures that this process knows of and gives
// all ranks that have been: those are exempt from matching from now on. It is run-through
// stabilization's form of FailureAck. Error: ErrClosed.
func (c *Comm) ReenableAnySource() (Group, error) {
	c = c.valid()
	if err := c.FailureAck(); err != nil {
		return Group{}, fmt.Errorf("reenable any source: %w", err)
	}
	return c.FailureGetAcked(), nil
}

func (c *Comm) groupOf(procs []proc.ID) Group { return Group{p2p.NewGroup(procs), c.world.self} }
