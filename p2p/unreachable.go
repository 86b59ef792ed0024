package p2p

import (
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
)

// unreachablePeer is a peer without a connection, and why there is none.
type unreachablePeer struct {
	id    proc.ID
	cause proc.Cause
}

// connectError is the error of an operation that cannot connect to its peer. If the peer has no
// known address, or no fabric joins it to this process, the operation fails as if the peer had
// failed: ft.ErrProcFailed. The peer itself does not count as failed: it may be alive, and connect
// later, or it may have finalized.
//
// Precondition: the lock is not held.
func (c *Comm) connectError(rank int, err error) error {
	_, noRoute := errors.AsType[*progress.NoRouteError](err)
	if !noRoute && !errors.Is(err, fabric.ErrNoAddress) {
		return fmt.Errorf("no connection to rank %d: %w", c.OriginalRank(rank), err)
	}
	e, peer := c.e, unreachablePeer{c.peers.Proc(rank), progress.Unreachable(err)}
	e.p.Lock()
	defer e.p.Unlock()
	if !slices.Contains(e.unreachable, peer) {
		e.unreachable = append(e.unreachable, peer)
	}
	failed := &ft.ProcFailedError{Cause: peer.cause}
	failed.Ranks = []int{c.OriginalRank(rank)}
	return fmt.Errorf("%w (%w)", failed, err)
}

// UnreachablePeers gives the members that operations of this process reported as failed because
// they cannot be reached, and that have not connected since, with the causes.
//
// Precondition: the lock is held.
func (c *Comm) UnreachablePeers() iter.Seq2[proc.ID, proc.Cause] {
	return func(yield func(proc.ID, proc.Cause) bool) {
		for _, p := range slices.Clone(c.e.unreachable) {
			if c.has(p.id) && c.e.p.Lookup(p.id) == nil && !yield(p.id, p.cause) {
				return
			}
		}
	}
}
