package p2p

import (
	"errors"
	"fmt"
	"slices"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
)

// unmetError is the error of an operation whose peer cannot be connected to. Where nobody can tell the
// peer's address the operation has failed as if the peer had: ft.ErrProcFailed. The peer itself does
// not count as failed: it may live, and connect, or it may have finalized.
// Precondition: the lock is not held.
func (c *Comm) unmetError(op, way string, rank int, err error) error {
	if !errors.Is(err, fabric.ErrNoAddress) {
		return fmt.Errorf("%s on %s %s rank %d: %w", op, c.name, way, rank, err)
	}
	e, peer := c.e, c.peers.Proc(rank)
	e.p.Lock()
	defer e.p.Unlock()
	if !slices.Contains(e.unmet, peer) {
		e.unmet = append(e.unmet, peer)
	}
	failed := &ft.ProcFailedError{Op: op, Comm: c.Name(), Ranks: []int{rank}, Cause: progress.Unreachable(err)}
	return fmt.Errorf("%w (%w)", failed, err)
}

// Unmet gives the members that operations of this process have been told to have failed because nobody
// can tell their addresses, and that have not connected since. Precondition: the lock is held.
func (c *Comm) Unmet() (out []proc.ID) {
	for _, p := range c.e.unmet {
		if c.has(p) && c.e.p.Lookup(p) == nil {
			out = append(out, p)
		}
	}
	return out
}
