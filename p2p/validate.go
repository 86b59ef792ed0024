package p2p

import (
	"fmt"

	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
)

// A validate is a collective acknowledgement: the living members of a communicator have agreed on
// the ended ones (package ft/repair), and this file applies the decision at one member (Hursey &
// Graham §3.2).
//
// The agreed failures are acknowledged. Collectives get a communicator of the remaining members,
// whose context is derived from the decision. So it is the same at all members, it never receives a
// message of an older collective, and the number of collectives that each member called before does
// not matter. A failure that this process knows and that has not been agreed on stays
// unacknowledged, and collectives fail until it is agreed on too. The numbers of derived
// communicators start again as well, with other contexts.
//
// From its start to its end a validate blocks, in this process, the operations that must come after
// it at all members: collectives and creation of communicators.

// Validation is the members' decision.
type Validation struct {
	// Ended are the members that take no part any more. The failed ones are in this process's view.
	Ended []proc.ID
	// Epoch is unique among the communicator's validates.
	Epoch uint64
}

// BeginValidate blocks collectives until EndValidate. Error: ft.ErrClosed. Precondition: the lock
// is held.
func (c *Comm) BeginValidate() error {
	if c.state.Load()&(stateFreed|stateFinal) != 0 {
		return c.check()
	}
	c.mutableFT().validating++
	c.collLocked().state.Or(stateValidating)
	c.e.answerInquiries()
	return nil
}

// EndValidate applies a decision; nil means that there is none. It is called once for each
// BeginValidate, at all members in the same order.
//
// Precondition: the lock is held.
func (c *Comm) EndValidate(v *Validation) error {
	c.mutableFT().validating--
	defer c.wakeValidateWaiters()
	var err error
	if v != nil && c.state.Load()&stateFinal == 0 {
		ended := setOf(v.Ended)
		c.acknowledgeAgreed(&ended)
		if c.state.Load()&stateFreed == 0 {
			err = c.replaceColl(v)
		}
	}
	if w := c.collLocked(); c.readFT().validating == 0 {
		w.state.And(^uint32(stateValidating))
	} else {
		w.state.Or(stateValidating)
	}
	return err
}

// renewedBit distinguishes the context of collectives after a validate from those of derived
// communicators, which are derived from a number. Otherwise the communicator with that number would
// find its context taken if no member has ended.
const renewedBit = 1 << 63

// replaceColl replaces the communicator of collectives.
func (c *Comm) replaceColl(v *Validation) error {
	e, old := c.e, c.collLocked()
	c.derived = 0
	clear(c.mutableFT().partly)
	c.epoch.Store(v.Epoch)
	words := []uint64{renewedBit}
	for _, p := range v.Ended {
		words = append(words, uint64(p)+1)
	}
	ctx := c.deriveContext(words...) | collContext
	if o := e.holder(ctx); o != nil {
		return fmt.Errorf("context %#x is taken by %s: validate once more", ctx, o.Name())
	}
	c.setColl(old.group.remaining(v.Ended), ctx)
	e.interrupt(func(r *Request) error {
		if r.comm != old {
			return nil
		}
		return errValidated
	})
	old.free()
	e.collFreed(old, true)
	if c.local == nil {
		return nil
	}
	return c.local.replaceColl(v)
}

// awaitValidate waits until no validate is under way. Precondition: the lock is held.
func (c *Comm) awaitValidate() {
	for c.readFT().validating > 0 && c.state.Load()&(stateFreed|stateFinal) == 0 {
		var done progress.Completion
		c.ftState.validateWaiters = append(c.ftState.validateWaiters, &done)
		c.e.p.Wait(&done)
	}
}

// wakeValidateWaiters lets the calls of awaitValidate look again.
func (c *Comm) wakeValidateWaiters() {
	if c.ftState == nil {
		return
	}
	for _, waiter := range c.ftState.validateWaiters {
		waiter.Finish()
	}
	c.ftState.validateWaiters = nil
}

// AgreedEnded lists the members that have been agreed to have ended.
func (c *Comm) AgreedEnded() (out []proc.ID) {
	w := c.coll.Load()
	if w == nil || c.local == nil && w.group.size == c.group.size {
		return nil
	}
	for _, p := range c.AllMembers().Procs() {
		if !w.has(p) {
			out = append(out, p)
		}
	}
	return out
}

// CollRank translates a rank of Peers, the root of an operation, to its rank in Coll; false: the
// rank has been agreed to have ended. Error: ft.ErrArgument.
func (c *Comm) CollRank(rank int) (int, bool, error) {
	if uint(rank) >= uint(c.peers.size) {
		return 0, false, fmt.Errorf("%w: root %d, want 0 … %d", ft.ErrArgument, rank, c.peers.size-1)
	}
	w := c.coll.Load()
	if c.local == nil && (w == nil || w.peers.size == c.peers.size) {
		return rank, true, nil
	}
	w = c.Coll()
	at := w.peers.Rank(c.peers.proc(rank))
	return at, at >= 0, nil
}
