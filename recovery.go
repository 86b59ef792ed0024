package banyan

import (
	"fmt"

	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/p2p"
)

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

func (c *Comm) groupOf(procs []proc.ID) Group { return Group{p2p.NewGroup(procs), c.world.job.Self} }

// Revoke ends all communication on this communicator, at every living rank of both
// sides: what waits on it, and what is begun on it, is ErrRevoked, but for [Comm.Agree], [Comm.Shrink] and what
// only asks (ULFM 17.3.1, S1-28 to S1-31). It is how one rank that has met a failure has all others leave
// the communication pattern that the dead has a part in. Any rank may call it at any time; it is not collective and does not
// wait. Messages that have been matched already are transferred.
//
// Errors: ErrClosed.
func (c *Comm) Revoke() error {
	c = c.valid()
	return c.raise(c.core.Revoke())
}

// IsRevoked makes progress and reports whether the communicator has been revoked, by this rank or
// another.
func (c *Comm) IsRevoked() bool { return c.valid().core.Revoked() }

// Agree gives every living rank the bitwise AND of the flags of all: of an
// intercommunicator, of those of the remote group (ULFM 17.3.2, S1-38 to S1-41). It is collective, works on a
// revoked communicator, and returns at all ranks with the same outcome although ranks die meanwhile. A
// boolean is a flag of 0 or 1. Over a remote group of which nobody lives the AND is all ones.
//
// A rank that has returned may still have to tell others, if those die who were to do it. It does so while it
// computes, within a period of the failure detector ([WithDetection]), or at once with [WithAsyncProgress]. Without
// detector a rank may wait for one that died without its knowing.
//
// Errors: ErrProcFailed, at all ranks alike, if a rank has failed and not all have acknowledged that
// ([Comm.AckFailed]); the result is right all the same, and GetFailed has all ranks that have no part in
// it. ErrArgument if some rank calls another operation in its stead; ErrClosed.
func (c *Comm) Agree(flag uint64) (uint64, error) {
	c = c.valid()
	at := c.flag.Swap(nil)
	if at == nil {
		at = new(uint64)
	}
	*at = flag
	err := c.wait(c.agree(at))
	flag = *at
	c.flag.Store(at)
	return flag, c.raise(err)
}

// IAgree begins to agree on *flag, which is not to be touched until the request is complete and has
// the result then. Several may be under way; they meet in the order in which each rank has begun them. Neither
// Request.Cancel nor the end of a context takes one back, since others count on it. ErrArgument without a flag, then nothing is
// begun. As [Comm.Agree] otherwise.
func (c *Comm) IAgree(flag *uint64) Request {
	c = c.valid()
	if flag == nil {
		return c.nowhere("agree", "flag")
	}
	return Request{c.agree(flag), c}
}

// nowhere is the request of an operation that would not know where to leave its result: it would find that out
// only when others count on it.
func (c *Comm) nowhere(op, what string) Request {
	return Request{c.e.Failed(c.core, fmt.Errorf("%s on %s: %w: nil for the %s", op, c.Name(), ErrArgument, what)), c}
}

func (c *Comm) agree(flag *uint64) p2p.Handle {
	c.e.Lock()
	defer c.e.Unlock()
	promise, h := c.e.NewAgreement(c.core)
	c.world.job.Repair.Agree(c.core, flag, promise)
	return h
}

// Shrink makes a communicator of the ranks that have not failed, in tderived order (ULFM 17.3.1, S1-33 to
// S1-35). It is collective over the living, works on a revoked communicator, and all get the
// same group; it leaves out at least every rank whose failure has been reported to some caller. Ranks that die meanwhile may be
// in it. The failure of ranks is no error. What is left has the error handler and the profile of the old one, and no
// attributes. Of an intercommunicator it has the living of both sides; where the other side has none it is nil, as of a
// split without colors there.
//
// It waits for all who live. So ranks that shrink several communicators with members in common do that in one
// order, or they wait for each other: else use IShrink.
//
// Errors: ErrArgument if some rank calls another operation in its stead; ErrClosed.
func (c *Comm) Shrink() (*Comm, error) {
	c = c.valid()
	s := c.shrinking.Swap(nil)
	if s == nil {
		s = newShrinking(c)
	}
	s.into = &s.left
	err := c.wait(c.shrink(s))
	left := s.left
	s.left = nil
	c.shrinking.Store(s)
	if err != nil {
		return nil, c.raise(err)
	}
	return left, nil
}

// IShrink begins to shrink; *into is the new communicator when the request is complete. Shrinks of several
// communicators with members in common may be begun in different orders. As [Comm.Shrink]
// otherwise.
func (c *Comm) IShrink(into **Comm) Request {
	c = c.valid()
	if into == nil {
		return c.nowhere("shrink", "place of the new communicator")
	}
	s := newShrinking(c)
	s.into = into
	return Request{c.shrink(s), c}
}

// shrinking is what a shrink needs while it is under way. That of a blocking one is used again, for the same reason as Comm.flag.
type shrinking struct {
	c       *Comm
	into    **Comm
	left    *Comm // of a blocking one
	derived *commAlloc
	promise p2p.Promise
	done    func(*p2p.Comm, error) // end
}

func newShrinking(c *Comm) *shrinking {
	s := &shrinking{c: c}
	s.done = s.end
	return s
}

func (s *shrinking) end(core *p2p.Comm, err error) {
	*s.into = nil
	if core != nil {
		s.c.inherit(&s.derived.Comm, core)
		*s.into, s.derived = &s.derived.Comm, nil
	}
	s.promise.Complete(err)
}

// commAlloc is a communicator that lies beside its core, which begins with a line of the cache: where the cache is cold, memory for both
// takes little longer than for each.
type commAlloc struct {
	room p2p.Comm
	Comm
}

func (c *Comm) shrink(s *shrinking) (h p2p.Handle) {
	c.e.Lock()
	defer c.e.Unlock()
	if s.derived == nil {
		s.derived = new(commAlloc)
	}
	s.promise, h = c.e.NewAgreement(c.core)
	c.world.job.Repair.Shrink(c.core, &s.derived.room, s.done)
	return h
}

// wait ends a request and gives its error, which nobody has been told of.
func (c *Comm) wait(h p2p.Handle) error {
	_, err := c.e.Wait(h)
	return err
}

// Validate makes collective operations work again on this communicator after failures, among the
// ranks that are left (run-through stabilization: S2-5, S4-9). All living ranks of both sides
// call it; they agree on who has failed, and all get the same ranks, in the order of the
// communicator. It returns although ranks die meanwhile: those may be in the result or not, but at all
// ranks alike.
//
// The ranks keep tderived numbers. The agreed failures are acknowledged, as by AckFailed, before
// any others; under [RTS] those ranks are as ProcNull from now on. Collectives leave them out: tderived blocks
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
// by all of tderived ranks. Of the result each is that of one communicator. It is nil if there is an
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
	c.world.job.Repair.Validate(cores, func(failed [][]proc.ID, err error) {
		for i, procs := range failed {
			into(i, comms[i].groupOf(procs))
		}
		for _, o := range comms {
			if err == nil && !o.IsInter() {
				o.trees.Renew(o.core)
			}
		}
		promise.Complete(err)
	})
	return h
}
