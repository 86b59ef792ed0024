package banyan

import (
	"fmt"

	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/p2p"
)

// Validate makes collective operations work again on this communicator after failures, among the
// ranks that are left (run-through stabilization: S2-5, S4-9). All living ranks of both sides
// call it; they agree on who has failed, and all get the same ranks, in the order of the
// communicator. It returns although ranks die meanwhile: those may be in the result or not, but at all
// ranks alike.
//
// The ranks keep their numbers. The agreed failures are acknowledged, as by AckFailed, before
// any others; under [RTS] those ranks are as ProcNull from now on. Collectives leave them out: their blocks
// stay as they are, they contribute nothing to a reduction, and an operation whose root is one of
// them returns nil at once and changes nothing. Ranks that have finalized are left out too. As long as a failure is known
// that has not been agreed on, collectives are ErrProcFailed: validate again.
//
// Collectives match from the beginning: how often each rank has called them before does
// not matter (S4-19, S4-20). The same goes for the making of communicators (S4-22); those made from now
// on have the agreed failures acknowledged. Messages, received or not, are not touched.
//
// It works on a revoked communicator, which remains revoked: a validate that has been begun is
// never left half-way. Operations on this rank that make it wait for one that is under way are collectives and
// creations; [Comm.IValidate] and then [Comm.Barrier] are in order.
//
// Errors: ErrArgument if some rank calls another operation in its stead, at all ranks, and nothing has changed;
// ErrClosed.
func (c *Comm) Validate() (Group, error) {
	c = c.valid()
	var failed Group
	err := c.wait(c.validate([]*Comm{c}, func(i int, g Group) { failed = g }))
	return failed, c.raise(err)
}

// IValidate begins to validate; *failed has the result when the request is complete and is
// not to be touched before. ErrArgument without a place for it, then nothing is begun. As [Comm.Validate] otherwise.
func (c *Comm) IValidate(failed *Group) Request {
	c = c.valid()
	if failed == nil {
		return c.nowhere("validate", "place of the failed ranks")
	}
	return Request{c.validate([]*Comm{c}, func(_ int, g Group) { *failed = g }), c}
}

// ValidateMultiple is Validate of each of the communicators, whose members may differ: those with equal
// members share one agreement, all others run at the same time (S4-10). So ranks may name them in different
// orders without waiting for each other in a circle. Communicators with equal members must be named together
// by all of their ranks. Of the result each is that of one communicator. It is nil if there is an
// error, which that of any of them is.
func ValidateMultiple(comms ...*Comm) ([]Group, error) {
	failed := make([]Group, len(comms))
	if _, err := IValidateMultiple(failed, comms...).Wait(); err != nil {
		return nil, err
	}
	return failed, nil
}

// IValidateMultiple begins ValidateMultiple; failed, as long as the list of communicators, has the
// results when the request is complete.
func IValidateMultiple(failed []Group, comms ...*Comm) Request {
	if len(comms) == 0 {
		return Request{}
	}
	for _, o := range comms {
		if err := o.present("validate"); err != nil {
			return absent().failed(err)
		}
	}
	c := comms[0]
	for _, o := range comms {
		if o.e != c.e {
			return Request{c.e.Failed(c.core, fmt.Errorf("validate of %s and %s: %w: they are of different worlds", c.Name(), o.Name(), ErrArgument)), c}
		}
	}
	if len(failed) != len(comms) {
		return Request{c.e.Failed(c.core, fmt.Errorf("validate of %d communicators: %w: room for %d groups", len(comms), ErrArgument, len(failed))), c}
	}
	return Request{c.validate(comms, func(i int, g Group) { failed[i] = g }), c}
}

// validate begins to validate communicators of this one's world.
func (c *Comm) validate(comms []*Comm, into func(int, Group)) p2p.Handle {
	cores := make([]*p2p.Comm, len(comms))
	for i, o := range comms {
		cores[i] = o.core
	}
	c.e.Lock()
	defer c.e.Unlock()
	promise, h := c.e.NewPromise(c.core)
	c.world.repair.Validate(cores, func(failed [][]proc.ID, err error) {
		for i, procs := range failed {
			into(i, comms[i].groupOf(procs))
		}
		for _, o := range comms {
			if err == nil && !o.IsInter() {
				o.coll.Renew(o.core)
			}
		}
		promise.Keep(err)
	})
	return h
}
