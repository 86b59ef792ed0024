package banyan

import (
	"fmt"

	"github.com/banyan-hpc/banyan/coll"
	"github.com/banyan-hpc/banyan/internal/debug"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/p2p"
)

// The queries and acknowledgements are local: they send nothing, and no other rank notices them.
// Each communicator has acknowledgements of its own; a new one has only those that were agreed on
// ([Comm.Validate]). Whether acknowledged or not, collective operations on a communicator with
// failed ranks are ErrProcFailed until the failures have been agreed on.

// A failure is known on this communicator once this process has detected it or was notified of it.
// It is acknowledged once the application has called AckFailed, or all ranks Validate.

// Failed makes progress and returns the ranks of this communicator, of both sides of an
// intercommunicator, that this process knows to have failed. The order is that in which their
// failures became known: an earlier result is a prefix of a later one. [Comm.FailedRanks] returns
// their ranks here; errors of operations with them contain the causes.
func (c *Comm) Failed() Group {
	c = c.valid()
	return c.groupOf(c.core.Failed())
}

// FailedRanks returns the members of Failed, in that order, by their ranks in this communicator. On
// an intercommunicator these are ranks of the remote group, as in its operations; Failed and
// [Group.Translate] return those of this side.
func (c *Comm) FailedRanks() []int {
	c = c.valid()
	var out []int
	peers := c.core.Peers()
	for _, p := range c.core.Failed() {
		if r := peers.Rank(p); r >= 0 {
			out = append(out, r)
		}
	}
	return out
}

// Acknowledged returns the members of Failed that have been acknowledged, in that order: they are a
// prefix of it.
func (c *Comm) Acknowledged() Group {
	c = c.valid()
	return c.groupOf(c.core.Acknowledged())
}

// AckFailed acknowledges the failures of the first n ranks of the result of Failed, and returns the
// number of acknowledged ranks. That is more than n if more were acknowledged before, and less if
// fewer failures are known. AckFailed(0) only queries, AckFailed(c.Size()) acknowledges all. Once
// all are acknowledged, receives from AnySource work again, pending ones included, and operations
// between living ranks take no longer than before the failure. They may still receive messages that
// a failed rank sent before.
//
// Errors: ErrArgument, ErrClosed.
func (c *Comm) AckFailed(n int) (int, error) {
	c = c.valid()
	acked, err := c.core.Acknowledge(n)
	return acked, c.notifyOf("AckFailed", err, arg("n", n))
}

// The following methods are Failed, Acknowledged and AckFailed by the names of the proposals.

// GetFailed is Failed. MPIX_Comm_get_failed, ULFM; AckFailed is MPIX_Comm_ack_failed.
func (c *Comm) GetFailed() Group { return c.Failed() }

// FailureAck acknowledges all failures that this process knows of. A failure that becomes known
// between query and acknowledgement is acknowledged unseen, so call FailureGetAcked afterwards.
// Error: ErrClosed. MPIX_Comm_failure_ack, ULFM, older than AckFailed.
func (c *Comm) FailureAck() error {
	c = c.valid()
	_, err := c.AckFailed(proc.MaxIDs)
	return err
}

// FailureGetAcked is Acknowledged. MPIX_Comm_failure_get_acked, ULFM.
func (c *Comm) FailureGetAcked() Group { return c.Acknowledged() }

// GroupFailed is Failed without the remote side of an intercommunicator. Run-through stabilization.
func (c *Comm) GroupFailed() Group { return c.Failed().Intersection(c.Group()) }

// RemoteGroupFailed is Failed without this side of an intercommunicator, and GroupFailed of other
// communicators. Run-through stabilization.
func (c *Comm) RemoteGroupFailed() Group { return c.Failed().Intersection(c.RemoteGroup()) }

// ReenableAnySource is FailureAck, then Acknowledged: matching ignores those ranks from now on.
// Error: ErrClosed. Run-through stabilization.
func (c *Comm) ReenableAnySource() (Group, error) {
	c = c.valid()
	if err := c.FailureAck(); err != nil {
		return Group{}, err
	}
	return c.Acknowledged(), nil
}

func (c *Comm) groupOf(procs []proc.ID) Group { return Group{p2p.NewGroup(procs), c.world.job.Self} }

// Revoke ends all communication on this communicator, at every living rank of both sides: pending
// and later operations are ErrRevoked, except [Comm.Agree], [Comm.Shrink] and queries (ULFM
// 17.3.1). A rank that has met a failure uses it to interrupt the communication pattern at all
// ranks. Any rank may call it at any time; it is not collective and does not wait. Messages that
// have been matched are still transferred.
//
// Errors: ErrClosed.
func (c *Comm) Revoke() error {
	c = c.valid()
	return c.notifyOf("Revoke", c.core.Revoke())
}

// IsRevoked makes progress and reports whether the communicator has been revoked, by this rank or
// another.
func (c *Comm) IsRevoked() bool { return c.valid().core.Revoked() }

// Agree returns to every living rank the bitwise AND of the flags of all ranks; on an
// intercommunicator, of the flags of the remote group (ULFM 17.3.2). It is collective, works on a
// revoked communicator, and returns the same outcome at all ranks although ranks fail meanwhile. A
// boolean is a flag of 0 or 1. Over a remote group without living ranks the AND is all ones.
//
// A rank that has returned may still have to forward the decision if other ranks fail. It forwards
// it while it computes, within a period of the failure detector ([WithDetection]), or at once with
// [WithAsyncProgress]. Without a detector a rank may wait for a failed rank whose failure it cannot
// observe.
//
// Errors: ErrProcFailed, at all ranks alike, if a rank has failed and not all have acknowledged
// that ([Comm.AckFailed]). The result is valid nevertheless, and Failed contains all ranks that did
// not contribute. ErrArgument if a rank calls another operation in its place; ErrClosed.
func (c *Comm) Agree(flag uint64) (uint64, error) {
	if !c.usual() {
		return c.agreeApart(flag)
	}
	return c.doAgree(flag)
}

func (c *Comm) doAgree(flag uint64) (uint64, error) {
	at := c.flag.Swap(nil)
	if at == nil {
		at = new(uint64)
	}
	*at = flag
	err := c.wait(c.agree(at))
	flag = *at
	c.flag.Store(at)
	return flag, c.notify(err)
}

// Iagree starts an agreement. Several may be under way; they match in the order in which each rank
// started them. Neither Request.Cancel nor the end of a context cancels one, since other ranks take
// part. Otherwise as [Comm.Agree]: the value is valid with ErrProcFailed too.
func (c *Comm) Iagree(flag uint64) Result[uint64] {
	of, at := c.valid(), &flag
	check := of.begins("Agree")
	return Result[uint64]{c.bind(Request{check.Follow(of.e, of.agree(at)), of}), at}
}

func (c *Comm) agree(flag *uint64) p2p.Handle {
	c.e.Lock()
	defer c.e.Unlock()
	promise, h := c.e.NewAgreement(c.core, "Agree")
	c.world.job.Repair.Agree(c.core, flag, promise)
	return h
}

// Shrink makes a communicator of the ranks that have not failed, in their order (ULFM 17.3.1). It
// is collective over the living ranks, works on a revoked communicator, and all get the same group.
// The group excludes at least every rank whose failure has been reported to some caller; ranks that
// fail meanwhile may be in it. The failure of ranks is no error. The new communicator has the error
// handler and the profile of the old one, and no attributes. For an intercommunicator it has the
// living ranks of both sides. If the other side has none it is nil, as from a split without colors
// there.
//
// It waits for all living ranks. Ranks that shrink several communicators with common members must
// shrink them in one order, or they wait for each other; Ishrink avoids this.
//
// Errors: ErrArgument if a rank calls another operation in its place; ErrClosed.
func (c *Comm) Shrink() (*Comm, error) {
	if !c.usual() {
		return c.shrinkApart()
	}
	return c.doShrink()
}

func (c *Comm) doShrink() (*Comm, error) {
	s := c.shrinking.Swap(nil)
	if s == nil {
		s = newShrinking(c)
	}
	err := c.wait(c.shrink(s))
	left := s.left
	s.left = nil
	c.shrinking.Store(s)
	if err != nil {
		return nil, c.notify(err)
	}
	return left, nil
}

// Ishrink starts a shrink; its value is the new communicator. Shrinks of several communicators with
// common members may be started in different orders. Otherwise as [Comm.Shrink].
func (c *Comm) Ishrink() Result[*Comm] {
	of := c.valid()
	s, check := newShrinking(of), of.begins("Shrink")
	return Result[*Comm]{c.bind(Request{check.Follow(of.e, of.shrink(s)), of}), &s.left}
}

// shrinking is the state of a shrink. That of a blocking one is reused, for the same reason as
// Comm.flag.
type shrinking struct {
	c       *Comm
	left    *Comm // the result
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
	s.left = nil
	if core != nil {
		s.c.inherit(&s.derived.Comm, core)
		s.left, s.derived = &s.derived.Comm, nil
	}
	s.promise.Complete(err)
}

// commAlloc allocates a communicator together with its core, which begins with a cache line. With a
// cold cache one allocation for both costs little more than one for each.
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
	s.promise, h = c.e.NewAgreement(c.core, "Shrink")
	c.world.job.Repair.Shrink(c.core, &s.derived.room, s.done)
	return h
}

// wait ends a request and returns its error. No handler has been called for it.
func (c *Comm) wait(h p2p.Handle) error {
	_, err := c.e.Wait(h)
	return err
}

// begins returns the comparison of a non-blocking operation without buffers.
func (c *Comm) begins(op string) *coll.Check {
	if !c.debugs() {
		return nil
	}
	d := debug.Plain(op)
	d.Name, d.Where = debug.Caller(library)
	check := c.world.checks.Start(c.core, d)
	check.Wrap = c.wrapping(d)
	c.coll.Begin(c.core, check, nil)
	return check
}

// alike compares a blocking call that has no turn. It calls the handler.
func (c *Comm) alike(op string) error {
	return c.notifyOf(op, c.coll.Compare(c.core, coll.Call{Check: c.comparison(debug.Plain(op))}))
}

// Validate makes collective operations work again on this communicator after failures, among the
// remaining ranks (run-through stabilization; Hursey and Graham, §3). All living ranks of both
// sides call it. They agree on the failed ranks, and each gets the same ranks, in the order of the
// communicator. It returns although ranks fail meanwhile: these may be in the result or not, but at
// all ranks alike.
//
// Ranks keep their numbers. The agreed failures are acknowledged, as by AckFailed, before any
// others; under [RTS] those ranks behave as ProcNull from now on. Collectives leave them out: their
// blocks stay unchanged, they contribute nothing to a reduction, and an operation with a failed
// root returns nil at once and changes nothing. Ranks that have finalized are left out too. As long
// as a failure is known that has not been agreed on, collectives are ErrProcFailed: validate again.
//
// Collectives match from the beginning: the number of earlier calls of each rank does not matter.
// The same applies to the creation of communicators. New communicators have the agreed failures
// acknowledged. Messages are not affected.
//
// It works on a revoked communicator, which remains revoked: a validate that was started always
// completes. On this rank collectives and creations wait for a validate under way, so
// [Comm.Ivalidate] and then [Comm.Barrier] is a valid order.
//
// Errors: ErrArgument if a rank calls another operation in its place, at all ranks, and nothing has
// changed; ErrClosed.
func (c *Comm) Validate() (Group, error) {
	if !c.usual() {
		return c.validateApart()
	}
	return c.doValidate()
}

func (c *Comm) doValidate() (Group, error) {
	var failed Group
	err := c.wait(c.validate([]*Comm{c}, func(i int, g Group) { failed = g }))
	return failed, c.notify(err)
}

// Ivalidate starts a validate; its value is the group of failed ranks. Otherwise as
// [Comm.Validate].
func (c *Comm) Ivalidate() Result[Group] {
	of, failed := c.valid(), new(Group)
	check := of.begins("Validate")
	h := of.validate([]*Comm{of}, func(_ int, g Group) { *failed = g })
	return Result[Group]{c.bind(Request{check.Follow(of.e, h), of}), failed}
}

// ValidateMultiple validates several communicators. Their members may differ: those with equal
// members share one agreement, and all agreements run at the same time. So ranks may name them in
// different orders without a deadlock. All ranks of communicators with equal members must name them
// in the same call. Each result is that of one communicator. The results are nil if there is an
// error, which may be that of any of them. It ends with the first of the contexts of all
// ([Comm.WithContext]).
func ValidateMultiple(comms ...*Comm) ([]Group, error) {
	of, cs, err := entered("Validate", comms)
	if err != nil {
		return nil, err
	}
	failed := make([]Group, len(comms))
	if _, err := validateMultiple(failed, of).orLeave(cs); err != nil {
		return nil, err
	}
	return failed, nil
}

// IvalidateMultiple starts ValidateMultiple; its value is the list of results. It waits with the context
// of the first communicator. Before it has ended, start no Agree, Shrink or Validate on one of these
// communicators: members could complete the two in different orders.
func IvalidateMultiple(comms ...*Comm) Result[[]Group] {
	failed := make([]Group, len(comms))
	return Result[[]Group]{validateMultiple(failed, comms), &failed}
}

func validateMultiple(failed []Group, comms []*Comm) Request {
	if len(comms) == 0 {
		return Request{}
	}
	of := make([]*Comm, len(comms))
	for i, o := range comms {
		if err := o.present("Validate"); err != nil {
			return absent().failed("Validate", errAbsent)
		}
		of[i] = o.valid()
	}
	return comms[0].bind(of[0].ivalidateMultiple(failed, of))
}

func (c *Comm) ivalidateMultiple(failed []Group, comms []*Comm) Request {
	for _, o := range comms {
		if o.e != c.e {
			return c.failed("Validate", fmt.Errorf("%w: %s is of another world", ErrArgument, o.Name()))
		}
	}
	var checks []*coll.Check
	for _, o := range comms {
		if check := o.begins("Validate"); check != nil {
			checks = append(checks, check)
		}
	}
	h := c.validate(comms, func(i int, g Group) { failed[i] = g })
	for _, check := range checks {
		h = check.Follow(c.e, h)
	}
	return Request{h, c}
}

// validate starts to validate communicators of this one's world.
func (c *Comm) validate(comms []*Comm, into func(int, Group)) p2p.Handle {
	cores := make([]*p2p.Comm, len(comms))
	for i, o := range comms {
		cores[i] = o.core
	}
	c.e.Lock()
	defer c.e.Unlock()
	promise, h := c.e.NewPromise(c.core, "Validate")
	c.world.job.Repair.Validate(cores, func(failed [][]proc.ID, err error) {
		for i, procs := range failed {
			into(i, comms[i].groupOf(procs))
		}
		for _, o := range comms {
			if err == nil && !o.IsInter() {
				o.coll.Renew(o.core)
			}
		}
		promise.Complete(err)
	})
	return h
}
