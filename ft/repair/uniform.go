package repair

import (
	"errors"
	"fmt"
	"slices"

	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/ft/agree"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/p2p"
)

// A uniform operation ends with one agreement on its outcome: each member contributes its error,
// and all get the same outcome. The agreement belongs to the sequence of agree and shrink and
// yields to them, so that a member that has met an error, revokes and shrinks delays no other. A
// member that learns of a revocation refuses, once: it takes no part in later uniform operations,
// which return ft.ErrRevoked at once.

// What is a uniform operation. Part of the wire format.
type What byte

// The uniform operations.
const (
	Barrier What = 16 + iota
	Bcast
	Reduce
	Allreduce
	Allgather
	Dup
	Create
	CreateGroup
	Split
	CreateInter
	CreateInterReady
	Merge
	Gather
	Scatter
	Alltoall
	Allgatherv
	Gatherv
	Scatterv
	Alltoallv
	ReduceScatter
	Scan
	Exscan
	ReduceScatterBlock
	NeighborAllgather
	NeighborAllgatherv
	NeighborAlltoall
	NeighborAlltoallv
	whatRefuse What = 15
)

// Vote is a member's contribution to the end of an operation.
type Vote struct {
	What What
	Err  error // its own error
	// Makes: the operation makes a communicator. It fails after a failure that was unknown to a
	// member when it voted.
	Makes bool
}

// classes are the error classes of votes, by bit: a cleared bit is an error of that class, and the
// bit after them an error of any other.
var classes = [...]error{ft.ErrProcFailed, ft.ErrRevoked, ft.ErrDeparted, ft.ErrArgument}

const noError = 1<<(len(classes)+1) - 1

// encode returns a vote's value.
func (v *Vote) encode() []byte {
	if v.Err == nil {
		return []byte{noError}
	}
	revoked := errors.Is(v.Err, ft.ErrRevoked) // also ErrProcFailed if a failure has revoked c
	for i, class := range classes {
		if revoked == (class == ft.ErrRevoked) && errors.Is(v.Err, class) {
			return []byte{noError &^ (1 << i)}
		}
	}
	return []byte{noError &^ (1 << len(classes))}
}

func (v *Vote) proposal() agree.Proposal {
	return agree.Proposal{What: byte(v.What), Value: v.encode(), Op: and, Yields: true}
}

// End ends an operation of all members uniformly. done gets nil at all living members, or the cause of
// an error at all of them, of one class, which some member contributed; ft.ErrProcFailed names all members
// that have been agreed to have failed.
//
// Precondition: the lock is held.
func (r *Repair) End(c *p2p.Comm, v Vote, done func(error)) {
	if err := c.RevokedLocked(); err != nil {
		r.refuse(c) // members that have refused are not waited for
		done(v.with(err))
		return
	}
	r.proposeIn(r.stateOf(c), v.proposal(), func(d *agree.Decision, err error) {
		if err == nil {
			err = v.outcome(c, d)
		}
		done(err)
	})
}

// refuse ends the uniform operations of a revoked communicator, once: the undecided one returns
// ft.ErrRevoked at all members and is the last.
func (r *Repair) refuse(c *p2p.Comm) {
	if r.refused.Get(c) {
		return
	}
	r.refused.Put(c, true)
	p := agree.Proposal{What: byte(whatRefuse), Refuses: true}
	r.proposeIn(r.stateOf(c), p, func(*agree.Decision, error) {
		if c.Usable() != nil && !c.InTurn() {
			r.refused.Delete(c) // Freed has been called before
		}
	})
}

// EndAmong is End for a group that may be a part of c or reach beyond it. The context belongs to
// this operation alone. If c is revoked meanwhile, it ends with ft.ErrRevoked at each process that
// does not know the outcome: members of the group that have not arrived may never do so.
//
// Precondition: the lock is held.
func (r *Repair) EndAmong(c *p2p.Comm, g p2p.Group, ctx uint32, v Vote, done func(error)) {
	w := &waiter{c, done}
	id := agree.GroupKey{Context: ctx | amongContext, Group: g.Digest()}
	r.waiters = append(r.waiters, w)
	r.proposeIn(r.stateFor(id, &g), v.proposal(), func(d *agree.Decision, err error) {
		if err == nil {
			err = v.outcome(c, d)
		}
		w.end(r, err)
	})
	r.retain(id)
	if err := c.RevokedLocked(); err != nil {
		w.end(r, err)
	}
}

// amongContext distinguishes the groups of EndAmong from those of communicators.
const amongContext = 1 << 31

// waiter is an EndAmong under way.
type waiter struct {
	c    *p2p.Comm
	done func(error)
}

// end delivers the outcome, the first time.
func (w *waiter) end(r *Repair, err error) {
	if i := slices.Index(r.waiters, w); i >= 0 {
		r.waiters = slices.Delete(r.waiters, i, i+1)
		w.done(err)
	}
}

// Revoked reports that a communicator has been revoked in this process. Precondition: the lock is
// held.
func (r *Repair) Revoked(c *p2p.Comm) {
	for _, w := range slices.Clone(r.waiters) {
		if w.c == c {
			w.end(r, c.RevokedLocked())
		}
	}
	if c.Uniformity() != p2p.UniformNothing {
		r.refuse(c)
	}
}

// outcome is the uniform error of an operation, or nil. A rank whose own error is of another class
// gets both.
func (v *Vote) outcome(c *p2p.Comm, d *agree.Decision) error {
	return v.with(v.common(c, d))
}

// with adds this rank's own error to the uniform one.
func (v *Vote) with(all error) error {
	if all == nil || v.Err == nil {
		return all
	}
	if v.encode()[0]|class(all) == noError { // of the same class: prefer the more specific one
		if _, named := errors.AsType[*ft.ProcFailedError](all); named {
			return all
		}
		return v.Err
	}
	own := v.Err
	if e, ok := own.(*ft.OpError); ok { //nolint:errorlint // of this operation, or a part of it
		own = e.Err
	}
	return fmt.Errorf("%w; at this rank: %w", all, own)
}

// class is the bit of an error's class.
func class(err error) byte {
	v := Vote{Err: err}
	return ^v.encode()[0] & noError
}

// common is the part of the outcome that is the same at all members.
func (v *Vote) common(c *p2p.Comm, d *agree.Decision) error {
	var failedProcs []proc.ID
	for _, g := range d.Ended {
		if !g.Departed {
			failedProcs = append(failedProcs, g.Proc)
		}
	}
	failed := func() error {
		if failedProcs == nil {
			return fmt.Errorf("%w: as another rank has found", ft.ErrProcFailed)
		}
		return c.FailedError(failedProcs)
	}
	if d.Mismatch {
		switch {
		case d.Refused:
			c.RevokeLocal() // the next uniform operation must not wait for that member
			return ft.ErrRevoked
		case failedProcs != nil:
			return failed() // the other members recover from that already
		}
		return errMismatch
	}
	unseen := func(p proc.ID) bool { return slices.Contains(failedProcs, p) }
	if v.Makes && slices.ContainsFunc(d.Unacked, unseen) {
		return failed()
	}
	met := ^d.Value[0] & noError
	for i, class := range classes {
		switch {
		case met&(1<<i) == 0:
		case i == 0:
			return failed()
		default:
			return fmt.Errorf("%w: at some rank", class)
		}
	}
	if met != 0 {
		return errors.New("it failed at some rank, and so at all")
	}
	return nil
}
