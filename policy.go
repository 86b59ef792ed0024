package banyan

import (
	"fmt"

	"github.com/banyan-hpc/banyan/coll/tree"
	"github.com/banyan-hpc/banyan/ft/repair"
	"github.com/banyan-hpc/banyan/internal/job"
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

// ErrorRange says which failures end all operations on a communicator; see [Comm.SetErrorRange].
type ErrorRange = p2p.ErrorRange

const (
	// ErrorsLocal is the default: an operation fails if it needs a rank that has failed.
	ErrorsLocal = p2p.ErrorsLocal
	// ErrorsGroup has the failure of any rank of the communicator, of either side, revoke it.
	ErrorsGroup = p2p.ErrorsGroup
	// ErrorsUniverse has the failure of any process of the job revoke it, if it becomes known after the communicator
	// was made.
	ErrorsUniverse = p2p.ErrorsUniverse
)

// SetErrorRange chooses which failures revoke this communicator, as if a rank had called [Comm.Revoke]: for programs
// whose ranks need all others, though they talk with few. As soon as this process knows of such a
// failure, everything that waits on the communicator and everything that is begun is ErrRevoked, but for Agree,
// Shrink and what only asks; the text of the error names the failure. All ranks choose the same; communicators that are
// made from this one inherit it. A failure that is known already counts, and a communicator that has been revoked stays so.
//
// It costs messages nothing. With ErrorsGroup nobody sends anything: the failure detector tells all. With
// ErrorsUniverse the first who knows tells the others, since a failure outside the group may have been known to one before it
// made the communicator and to another after. Of a transfer that was under way with the dead the error is ErrRevoked as well.
//
// Errors: ErrArgument, ErrClosed.
func (c *Comm) SetErrorRange(r ErrorRange) error {
	if err := c.present("set error range"); err != nil {
		return err
	}
	return c.raise(c.core.SetErrorRange(r))
}

// ErrorRange is the range in force.
func (c *Comm) ErrorRange() ErrorRange { return c.valid().core.ErrorRange() }

// Uniformity says which operations on a communicator have the same outcome at all living ranks; see
// [Comm.SetUniformity]. Each level includes those before it.
type Uniformity = p2p.Uniformity

const (
	// UniformNothing is the default: each rank has its own outcome.
	UniformNothing = p2p.UniformNothing
	// UniformCreation has Dup, Create, CreateGroup, Split, SplitByNode, CreateInter and Merge make the communicator at all ranks
	// or at none.
	UniformCreation = p2p.UniformCreation
	// UniformCollectives has Barrier, Bcast, Reduce, Allreduce, Gather, Scatter and Allgather, of numbers and of bytes, succeed at all ranks
	// or fail at all, and is UniformCreation too, as creating is collective.
	UniformCollectives = p2p.UniformCollectives
)

// SetUniformity chooses what succeeds at all living ranks or fails at all. Each such operation ends with an agreement on its
// outcome, which costs about what a Reduce and a Bcast of a word cost and has every rank wait for all. Where some rank has met an error all get one of the
// same class: ErrProcFailed with all ranks that are agreed to have failed; a rank that has met
// another one itself has that in its error too. A new communicator is then freed where it was made. Success at all does not say that all live:
// a rank may die at any time.
//
// With UniformCollectives a collective works in memory of the communicator, and writes to a buffer only when success is agreed on. So after an
// error every buffer is bit for bit as it was, at all living ranks, the root's too, and the operation may be repeated among those who are left. It costs a copy of
// what is written, of what is folded another one, and as much memory again, which the communicator keeps up to 1 MiB of; more is the
// garbage collector's to take. A rank whose arguments do not fit, or whose length is not that of the others, has all get ErrArgument; where ranks name different
// roots they may wait for each other until one revokes.
//
// All ranks choose the same (of an intercommunicator, those of both sides; for CreateInter, those of both communicators) before
// the same operation; communicators that are made from this one inherit it. The operations are to be called by all living ranks, or the communicator be
// revoked: revoking ends them everywhere, with ErrRevoked unless the outcome is decided. A rank that calls Agree or Shrink in place of one
// takes part: the others get an error, and its own operation goes on to the next agreement.
//
// CreateGroup is agreed on among the group; others have no part in it. A member of the group that has not called it when this communicator is revoked
// need not do so any more: there alone revoking may come between the ranks.
//
// The last operation on a communicator that was revoked costs one more agreement, in the background.
//
// Error: ErrArgument.
func (c *Comm) SetUniformity(u Uniformity) error {
	if err := c.present("set uniformity"); err != nil {
		return err
	}
	return c.raise(c.core.SetUniformity(u))
}

// Uniformity is the level in force.
func (c *Comm) Uniformity() Uniformity { return c.valid().core.Uniformity() }

// names are those of the uniform collectives in errors.
var names = map[repair.What]string{
	repair.Barrier: "barrier", repair.Bcast: "bcast", repair.Reduce: "reduce", repair.Allreduce: "allreduce", repair.Allgather: "allgather",
	repair.Gather: "gather", repair.Scatter: "scatter",
}

// end brings an operation to its common end.
func (c *Comm) end(v repair.Vote) error {
	v.Op = names[v.What]
	return c.decided(func(done func(error)) { c.world.job.Repair.End(c.core, v, done) })
}

// decided waits for the outcome of something that is agreed on.
func (c *Comm) decided(begin func(done func(error))) error {
	c.e.Lock()
	promise, h := c.e.NewAgreement(c.core)
	begin(promise.Complete)
	c.e.Unlock()
	return c.wait(h)
}

// Design is what becomes of the trees of collectives when ranks are gone (Hursey and Graham, §3.1); see [Comm.SetDesign].
type Design = tree.Design

const (
	// Unaware takes no notice: the tree over all ranks, whose messages do not look for failures. It is there to be
	// compared with. Where a validate has left ranks out its collectives are ErrArgument.
	Unaware = tree.Unaware
	// Reroute keeps the tree and goes round the gone, looked up in each call: their children are adopted.
	Reroute = tree.Reroute
	// LookupAvoiding has the same edges, computed by Validate.
	LookupAvoiding = tree.LookupAvoiding
	// Rebalance is the default: a tree of those who are left, as if the gone had never been there.
	Rebalance = tree.Rebalance
)

// ParseDesign reads "unaware", "reroute", "lookup" or "rebalance".
func ParseDesign(text string) (Design, error) {
	d, err := tree.ParseDesign(text)
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrArgument, err)
	}
	return d, err
}

// SetDesign chooses what becomes of the trees of this communicator's collectives when ranks are gone. All ranks choose
// the same before the same operation; communicators that are made from this one inherit it. Without failures, or before the first validate
// after them, the designs have the same trees. Not to be called while a collective is under way. Error: ErrArgument.
func (c *Comm) SetDesign(d Design) error {
	if err := c.present("set design"); err != nil {
		return err
	}
	if d > Rebalance {
		return c.raise(fmt.Errorf("set design of %s: %w: %v, want unaware, reroute, lookup or rebalance", c.Name(), ErrArgument, d))
	}
	choice := c.trees.Choice
	choice.Design = d
	c.trees.Set(choice)
	return nil
}

// Design is the design in force.
func (c *Comm) Design() Design { return c.valid().trees.Design }

// SetTree chooses the trees of this communicator's collectives: "binomial", "knomial:4" or of another radix, "binary", "chain",
// "flat", or "node", which goes between nodes once. "auto", the default, leaves the way to each operation, by length and number
// of ranks: it need not be a tree, as it is for Reroute and LookupAvoiding after failures. As
// SetDesign otherwise. Error: ErrArgument.
func (c *Comm) SetTree(text string) error {
	if err := c.present("set tree"); err != nil {
		return err
	}
	choice, err := job.WithTree(c.trees.Choice, text)
	if err != nil {
		return c.raise(fmt.Errorf("set tree of %s: %w", c.Name(), err))
	}
	c.trees.Set(choice)
	return nil
}

// Tree is what SetTree has chosen.
func (c *Comm) Tree() string {
	c = c.valid()
	if c.trees.Auto {
		return job.AutoTree
	}
	return c.trees.Shape.String()
}
