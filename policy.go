package banyan

import (
	"fmt"
	"slices"

	"github.com/banyan-hpc/banyan/coll"
	"github.com/banyan-hpc/banyan/coll/tree"
	"github.com/banyan-hpc/banyan/internal/debug"
	"github.com/banyan-hpc/banyan/internal/job"
	"github.com/banyan-hpc/banyan/p2p"
)

// Profile is the set of rules that a communicator follows after failures. The proposals to the MPI Forum differ in
// them: [ULFM] or [RTS].
//
//	String() string
type Profile = p2p.Profile

const (
	// ULFM is user level failure mitigation, the default: each operation with a failed rank is ErrProcFailed,
	// acknowledged or not. A non-blocking receive from AnySource can always be started; with unacknowledged failures
	// a wait for it returns ErrProcFailedPending.
	ULFM = p2p.ULFM
	// RTS is run-through stabilization: a failed rank that has been acknowledged behaves as
	// ProcNull. Sends to it succeed and send nothing, receives from it get the Status of ProcNull,
	// and its unexpected messages are dropped. A receive or probe from AnySource that is started
	// with unacknowledged failures is ErrProcFailed at once.
	RTS = p2p.RunThrough
)

// SetProfile chooses the rules for this communicator on this rank, in place of the job's
// ([WithProfile]); communicators derived from it have the same. Error: ErrArgument once a failure
// has been acknowledged on it.
func (c *Comm) SetProfile(p Profile) error {
	if err := c.present("SetProfile"); err != nil {
		return err
	}
	c = c.valid()
	return c.notifyOf("SetProfile", c.core.SetProfile(p))
}

// Profile is the set of rules in force.
func (c *Comm) Profile() Profile { return c.valid().core.Profile() }

// ErrorRange is the set of failures that revoke a communicator: [ErrorsLocal], [ErrorsGroup] or
// [ErrorsUniverse]; see [Comm.SetErrorRange].
//
//	String() string
type ErrorRange = p2p.ErrorRange

const (
	// ErrorsLocal is the default: an operation fails if it needs a rank that has failed.
	ErrorsLocal = p2p.ErrorsLocal
	// ErrorsGroup: the failure of any rank of the communicator, of either side, revokes it.
	ErrorsGroup = p2p.ErrorsGroup
	// ErrorsUniverse: the failure of any process of the job revokes it, if it becomes known after
	// the communicator was made.
	ErrorsUniverse = p2p.ErrorsUniverse
)

// SetErrorRange chooses the failures that revoke this communicator, as if a rank had called [Comm.Revoke]. It serves
// programs whose ranks need all others, though they communicate with few. As soon as this process knows of such a
// failure, all pending and later operations on the communicator are ErrRevoked, except Agree, Shrink and queries.
// All ranks choose the same; communicators derived from this one inherit it. A failure that is already known counts,
// and a revoked communicator stays revoked.
//
// The error wraps the failure: it is ErrProcFailed as well, and as a *[ProcFailedError] it names the rank, or none
// if the process is not a member. A rank that is notified of the revocation before it detects the failure itself
// gets ErrRevoked alone.
//
// Messages are not slower. With ErrorsGroup no rank sends anything: the failure detector notifies all. With
// ErrorsUniverse the first rank that detects the failure notifies the others, because a failure outside the group
// may have been known to one rank before it made the communicator, and to another only after. Transfers with the
// failed rank end with ErrRevoked as well.
//
// Errors: ErrArgument, ErrClosed.
func (c *Comm) SetErrorRange(r ErrorRange) error {
	if err := c.present("SetErrorRange"); err != nil {
		return err
	}
	c = c.valid()
	return c.notifyOf("SetErrorRange", c.core.SetErrorRange(r))
}

// ErrorRange is the range in force.
func (c *Comm) ErrorRange() ErrorRange { return c.valid().core.ErrorRange() }

// Uniformity is the set of operations on a communicator with the same outcome at all living ranks;
// see [Comm.SetUniformity]: [UniformNothing], [UniformCreation] or [UniformCollectives]. Each level
// includes those before it.
//
//	String() string
type Uniformity = p2p.Uniformity

const (
	// UniformNothing is the default: each rank has its own outcome.
	UniformNothing = p2p.UniformNothing
	// UniformCreation: Dup, Create, CreateGroup, Split, SplitByNode, CreateInter and Merge make the
	// communicator at all ranks or at none.
	UniformCreation = p2p.UniformCreation
	// UniformCollectives: Barrier, Bcast, Reduce, Allreduce, Gather, Scatter, Allgather, Alltoall,
	// ReduceScatter, Scan, Exscan and those of blocks that differ in length, of numbers and of
	// bytes, succeed at all ranks or fail at all. It includes UniformCreation, as creation is
	// collective.
	UniformCollectives = p2p.UniformCollectives
)

// SetUniformity chooses the operations that succeed at all living ranks or fail at all. Each ends with an agreement
// on its outcome, which costs about as much as a Reduce and a Bcast of a word and waits for all ranks. If a rank has
// met an error, all get one of the same class: ErrProcFailed with all ranks that are agreed to have failed. A rank
// that has met another error itself has that in its error too. A new communicator is then freed at the ranks that
// made it. Success does not mean that all ranks live: a rank may fail at any time.
//
// With UniformCollectives a collective works in memory of the communicator, and writes to a buffer only when success
// is agreed on. So after an error every buffer is bit for bit unchanged, at all living ranks including the root, and
// the operation may be repeated among the remaining ranks. It costs a copy of the result, another one of reduced
// data, and as much memory again, of which the communicator keeps up to 1 MiB. If a rank has wrong arguments, or a
// length that differs from the others', all ranks get ErrArgument; ranks that name different roots may wait for each
// other until one revokes. Without it the result buffer of a failed collective holds its old content, the result, or
// parts of both.
//
// All ranks choose the same (of an intercommunicator, those of both sides; for CreateInter, those of both
// communicators) before the same operation; communicators derived from this one inherit it. All living ranks call
// the operations, or the communicator is revoked: that ends them everywhere, with ErrRevoked unless the outcome is
// decided. A rank that calls Agree or Shrink instead takes part: the others get an error, and its own operation
// proceeds to the next agreement.
//
// CreateGroup is agreed on among the group; other ranks take no part. A member of the group that has not called it
// when this communicator is revoked need not call it any more. Only in this case may a revocation separate the
// ranks.
//
// The last operation on a communicator that was revoked costs one more agreement, in the background.
//
// Error: ErrArgument.
func (c *Comm) SetUniformity(u Uniformity) error {
	if err := c.present("SetUniformity"); err != nil {
		return err
	}
	c = c.valid()
	return c.notifyOf("SetUniformity", c.core.SetUniformity(u))
}

// Uniformity is the level in force.
func (c *Comm) Uniformity() Uniformity { return c.valid().core.Uniformity() }

// Design determines how the trees of collectives treat failed ranks (Hursey and Graham, §3.1): [Unaware], [Reroute],
// [LookupAvoiding], [Rebalance] or [Corrected]; see [Comm.SetDesign].
//
//	String() string
type Design = tree.Design

const (
	// Unaware ignores failures: the tree has all ranks, and its messages do not check for failures. It exists for
	// comparison. After a validate with failed ranks its collectives are ErrArgument.
	Unaware = tree.Unaware
	// Reroute keeps the tree and routes around failed ranks in each call: their parents adopt their children.
	Reroute = tree.Reroute
	// LookupAvoiding has the same edges, computed once by Validate.
	LookupAvoiding = tree.LookupAvoiding
	// Rebalance is the default: Validate makes a new tree of the remaining ranks.
	Rebalance = tree.Rebalance
	// Corrected completes Barrier and Bcast, blocking or not, in spite of failures that are unknown when they start,
	// and without a validate (Küttler and others, PPoPP 2019): a value goes down a tree, and each rank that has it
	// corrects its neighbours on a ring. A Bcast returns without waiting for any failure to be detected. It is
	// ErrProcFailed only if the root has failed and no living rank has the value, and then at all ranks. A Barrier
	// waits for each member until it has entered, or its failure is known. Both return nil although members have
	// failed, in either profile; GetFailed has them. All living ranks make the same calls: a rank that calls something
	// else, such as Shrink, revokes first. Without failures it is slower than the others: 2 more messages per rank, and
	// no shared memory. All other operations are those of Rebalance, also uniform ones and those of intercommunicators.
	Corrected = tree.Corrected
)

// ParseDesign parses "unaware", "reroute", "lookup", "rebalance" or "corrected".
func ParseDesign(text string) (Design, error) {
	d, err := tree.ParseDesign(text)
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrArgument, err)
	}
	return d, err
}

// SetDesign chooses the tree design of this communicator's collectives. All ranks choose the same
// before the same operation; communicators derived from this one inherit it. Without failures, or
// before the first validate after them, the designs have the same trees. It must not be called
// while a collective is under way. Error: ErrArgument.
func (c *Comm) SetDesign(d Design) error {
	if err := c.present("SetDesign"); err != nil {
		return err
	}
	c = c.valid()
	if d > Corrected {
		return c.notifyOf("SetDesign", fmt.Errorf("%w: %v, want unaware, reroute, lookup, rebalance or corrected",
			ErrArgument, d))
	}
	choice := c.coll.Choice
	choice.Design = d
	c.coll.Set(choice)
	return nil
}

// Design is the design in force.
func (c *Comm) Design() Design { return c.valid().coll.Design }

// Tree is the form of the trees of collectives; see [Comm.SetTree]. The zero Tree is AutoTree.
type Tree uint32

const (
	// AutoTree is the default: it chooses an algorithm for each operation, by length and number of ranks. The
	// algorithm need not be a tree, except for Reroute and LookupAvoiding after failures.
	AutoTree Tree = iota
	// BinomialTree: rank r, counted from the root, has the children r+2^i for every 2^i > r.
	BinomialTree
	// BinaryTree: rank r has the children 2r+1 and 2r+2.
	BinaryTree
	// ChainTree: rank r has the child r+1.
	ChainTree
	// FlatTree: all other ranks are children of the root.
	FlatTree
	// NodeTree has a binomial tree over the nodes and one within each node: data cross the network between two nodes
	// once.
	NodeTree

	// firstKNomial is the tree of radix 0.
	firstKNomial Tree = 1 << 8
)

// KNomialTree is the k-nomial tree of a radix of 2 … 65536: a binomial tree in digits to the base k. SetTree, or
// Init, refuses other radixes.
func KNomialTree(k int) Tree {
	if k < 2 || k > tree.MaxRadix {
		return firstKNomial // not a valid tree
	}
	return firstKNomial + Tree(k)
}

var treeWords = [...]string{
	AutoTree: job.AutoTree, BinomialTree: "binomial", BinaryTree: "binary", ChainTree: "chain", FlatTree: "flat",
	NodeTree: "node",
}

// String returns the text that ParseTree parses.
func (t Tree) String() string {
	switch {
	case int(t) < len(treeWords):
		return treeWords[t]
	case t >= firstKNomial:
		return fmt.Sprintf("knomial:%d", t-firstKNomial)
	}
	return fmt.Sprintf("tree %d", uint32(t))
}

// ParseTree parses "auto", "binomial", "knomial:4" or another radix, "binary", "chain", "flat" or "node". Error:
// ErrArgument.
func ParseTree(text string) (Tree, error) {
	choice, err := job.WithTree(coll.Choice{}, text)
	if err != nil {
		return AutoTree, err
	}
	return treeOf(choice), nil
}

// treeOf returns the tree of a choice.
func treeOf(choice coll.Choice) Tree {
	if choice.Auto {
		return AutoTree
	}
	word := choice.Shape.String()
	if i := slices.Index(treeWords[:], word); i >= 0 {
		return Tree(i)
	}
	k := 0
	_, _ = fmt.Sscanf(word, "knomial:%d", &k) // k stays invalid for other words
	return KNomialTree(k)
}

// SetTree chooses the trees of this communicator's collectives. Otherwise as SetDesign. Error: ErrArgument.
func (c *Comm) SetTree(t Tree) error {
	if err := c.present("SetTree"); err != nil {
		return err
	}
	c = c.valid()
	choice, err := job.WithTree(c.coll.Choice, t.String())
	if err != nil {
		return c.notifyOf("SetTree", err)
	}
	c.coll.Set(choice)
	return nil
}

// Tree is the tree in force.
func (c *Comm) Tree() Tree { return treeOf(c.valid().coll.Choice) }

// SetAlgorithms sets the table by which collectives of this communicator choose their algorithms if its tree is
// [AutoTree], in the form of [WithAlgorithms] and in place of the present table; "" is the default one. Otherwise as
// SetDesign.
func (c *Comm) SetAlgorithms(table string) error {
	if err := c.present("SetAlgorithms"); err != nil {
		return err
	}
	c = c.valid()
	choice, err := job.WithAlgorithms(c.coll.Choice, "table", table)
	if err != nil {
		return c.notifyOf("SetAlgorithms", err)
	}
	c.coll.Set(choice)
	return nil
}

// Algorithm returns the name of the algorithm that a blocking collective uses by the table in force. The operation
// and bytes are those of a table (docs/tuning.md), such as "reduce_scatter_block". "memory" and "levels" are known
// from the second barrier or allreduce on. It returns "" if a tree was chosen. It must not be called while a
// collective is under way. Error: ErrArgument.
func (c *Comm) Algorithm(op string, bytes int) (string, error) {
	if err := c.present("Algorithm"); err != nil {
		return "", err
	}
	c = c.valid()
	by, err := c.coll.Algorithm(c.core, op, bytes)
	return by, c.notifyOf("Algorithm", err)
}

// Order is the order in which a reduction may take its operands.
type Order uint8

const (
	// InOrder is the default: the order of ranks. The operation need not be commutative.
	InOrder Order = iota
	// AnyOrder is the order of arrival over the tree. The operation must be commutative. The same tree gives the
	// same order each time. All ranks pass the same.
	AnyOrder
)

func anyOrder(order []Order) bool { return slices.Contains(order, AnyOrder) }

// manner describes how a collective is called; the zero manner is the usual one.
type manner struct {
	inTurn bool        // its caller may have returned before it ends
	check  *coll.Check // nil: not under WithDebug
}

// call describes a collective of this communicator. Wrong is an error in the arguments of this rank, or nil.
func (c *Comm) call(wrong error, m manner) coll.Call {
	return coll.Call{Wrong: wrong, Uniform: c.uniform(), InTurn: m.inTurn, Check: m.check}
}

// usual reports whether the fast paths apply: no view, not nil, not under WithDebug.
func (c *Comm) usual() bool { return c != nil && c.mode-modeAware <= modeUnaware-modeAware }

// Calls on other communicators go through these functions.

// collective runs a blocking collective; it folds with op, or op is nil. It calls do with the communicator to use.
func (c *Comm) collective(d debug.Collective, op any, do func(c *Comm, m manner) error) error {
	c, ctx, err := c.enter(d.Op)
	if err != nil {
		return err
	}
	check := c.comparison(d.By(op))
	if ctx == nil {
		return c.notify(do(c, manner{check: check}))
	}
	return c.apart(ctx, d.Op, true, &errand{do: func() error { return do(c, manner{true, check}) }})
}

// icollective starts a non-blocking collective. It only reads the buffer in.
func (c *Comm) icollective(
	d debug.Collective, in, out []byte, do func(c *Comm, in, out []byte, m manner) p2p.Handle,
) Request {
	of, m := c.valid(), manner{}
	if of.debugs() {
		d.Name, d.Where = debug.Caller(library)
		in, out, m.check = of.world.checks.Lend(of.core, d, in, out)
		m.check.Wrap = of.wrapping(d)
	}
	return c.bind(Request{do(of, in, out, m), of})
}

// wrapping returns a function that wraps a cause into the error of a call.
func (c *Comm) wrapping(d debug.Collective) func(error) error {
	return func(cause error) error {
		if d.Root == debug.None {
			return c.opError(d.Op, cause)
		}
		return c.opError(d.Op, cause, arg("root", d.Root))
	}
}

func rooted(op string, buf []byte, root int, k debug.Kind) debug.Collective {
	return debug.Collective{Op: op, Root: root, Length: len(buf), Kind: k}
}

func folding(op string, buf []byte, root int, f coll.Fold) debug.Collective {
	return debug.Collective{Op: op, Root: root, Length: len(buf), Unit: f.Unit, AnyOrder: f.AnyOrder}
}
