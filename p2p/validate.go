package p2p

import (
	"fmt"

	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
)

// Validating is acknowledging together: the living members of a communicator have agreed on who
// is gone (package ft/repair), and here is what that changes at one of them (S2-5, S4-9, S4-19).
//
// The agreed failures are acknowledged. Collectives get a communicator of those that are left,
// whose context follows from what has been agreed on: so it is the same at all, no message of an older
// collective is ever received on it, and how often each member has called collectives
// before does not matter (S4-20). A failure that is known here and has not been agreed on stays what it was:
// not acknowledged, and collectives fail until it is agreed on too. The numbers of what is made from the
// communicator begin again as well, in contexts of their own (S4-22).
//
// From its beginning to its end a validate holds up, at this process, what must come after it at all:
// collectives, and making communicators.

// Validation is what the members of a communicator have agreed on.
type Validation struct {
	// Ended are the members that take no part any more. Those of them that have failed stand in
	// the view of this process.
	Ended []proc.ID
	// Epoch is a number that no other validate of the communicator has.
	Epoch uint64
}

// BeginValidate has collectives wait until EndValidate. Error: ft.ErrClosed. Precondition: the lock is held.
func (c *Comm) BeginValidate() error {
	if c.state.Load()&(stateFreed|stateFinal) != 0 {
		return c.check("validate")
	}
	c.mutableFT().validating++
	c.collLocked().state.Or(stateValidating)
	c.e.answerInquiries()
	return nil
}

// EndValidate takes over what has been agreed on; nil: nothing has been. It is called once for
// each BeginValidate, at all members in the same order. Precondition: the lock is held.
func (c *Comm) EndValidate(v *Validation) error {
	c.mutableFT().validating--
	defer c.wakeValidateWaiters()
	var err error
	if v != nil && c.state.Load()&stateFinal == 0 {
		gone := setOf(v.Ended)
		c.acknowledgeAgreed(&gone)
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

// renewedBit tells the context of collectives after a validate from those of what is made from the communicator, which begin
// with its number: else the one with that number would find its context taken where nobody is gone.
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
		return fmt.Errorf("context %#x of %s is taken by %s: validate once more", ctx, c.name, o.name)
	}
	group := old.group.remaining(v.Ended)
	peers := group
	if c.local != nil {
		peers = old.peers.remaining(v.Ended)
	}
	c.setColl(group, peers, ctx)
	e.interrupt(func(r *Request) error {
		if r.comm != old {
			return nil
		}
		return old.validatedError(r.kind.String())
	})
	old.free()
	if c.local == nil {
		return nil
	}
	return c.local.replaceColl(v)
}

// validatedError is the error of a collective that was under way when a validate ended.
func (c *Comm) validatedError(op string) error {
	return fmt.Errorf("%s on %s: %w: it belongs to a collective that ran beside a validate of the communicator: wait for it before you validate",
		op, c.name, ft.ErrArgument)
}

// awaitValidate waits until no validate is under way. Precondition: the lock is held.
func (c *Comm) awaitValidate() {
	for c.readFT().validating > 0 && c.state.Load()&(stateFreed|stateFinal) == 0 {
		var done progress.Completion
		c.ftState.validateWaiters = append(c.ftState.validateWaiters, &done)
		c.e.p.Wait(&done)
	}
}

// wakeValidateWaiters has those who wait in settle look again.
func (c *Comm) wakeValidateWaiters() {
	if c.ftState == nil {
		return
	}
	for _, waiter := range c.ftState.validateWaiters {
		waiter.Finish()
	}
	c.ftState.validateWaiters = nil
}

// agreedEnded lists the members that are agreed to be gone.
func (c *Comm) agreedEnded() (out []proc.ID) {
	w := c.coll.Load()
	if w == nil || w.group.size == c.group.size && w.peers.size == c.peers.size {
		return nil
	}
	for _, p := range c.AllMembers().Procs() {
		if !w.has(p) {
			out = append(out, p)
		}
	}
	return out
}

// CollRank gives the rank in Coll of a rank of Peers that is to be the root of an operation. False: that is agreed to be gone. Error:
// ft.ErrArgument.
func (c *Comm) CollRank(op string, rank int) (int, bool, error) {
	if uint(rank) >= uint(c.peers.size) {
		return 0, false, fmt.Errorf("%s on %s: %w: root %d, want 0 … %d", op, c.name, ft.ErrArgument, rank, c.peers.size-1)
	}
	w := c.coll.Load()
	if w == nil || w.peers.size == c.peers.size {
		return rank, true, nil
	}
	at := w.peers.Rank(c.peers.Proc(rank))
	return at, at >= 0, nil
}
