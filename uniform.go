package banyan

import (
	"cmp"
	"errors"

	"github.com/banyan-hpc/banyan/ft/repair"
	"github.com/banyan-hpc/banyan/p2p"
)

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

// names are those of the creation of communicators in errors.
var names = map[repair.What]string{
	repair.Dup: "dup", repair.Create: "create", repair.CreateGroup: "create group", repair.Split: "split",
	repair.CreateInter: "create inter", repair.CreateInterReady: "create inter", repair.Merge: "merge",
}

// end brings an operation to its common end.
func (c *Comm) end(v repair.Vote) error {
	v.Op = cmp.Or(v.Op, names[v.What])
	return c.decided(func(done func(error)) { c.world.repair.End(c.core, v, done) })
}

// decided waits for the outcome of something that is agreed on.
func (c *Comm) decided(begin func(done func(error))) error {
	c.e.Lock()
	promise, h := c.e.NewAgreement(c.core)
	begin(promise.Keep)
	c.e.Unlock()
	return c.wait(h)
}

// uniformly reports whether what is made from this communicator is to be made everywhere or nowhere. On a communicator
// that has been freed nothing is agreed.
func (c *Comm) uniformly(err error) bool {
	return c.core.Uniformity() >= UniformCreation && !errors.Is(err, ErrClosed)
}

// made ends the making of a communicator, or of none for this rank, in which err was met: with what all ranks have come to if that is wanted.
func (c *Comm) made(what repair.What, d *Comm, err error) (*Comm, error) {
	if c.uniformly(err) {
		if err == nil {
			err = c.whole(what, d)
		}
		err = c.end(repair.Vote{What: what, Err: err, Makes: true})
	}
	return c.kept(d, err)
}

// kept gives a new communicator, or frees it for an error.
func (c *Comm) kept(d *Comm, err error) (*Comm, error) {
	if err == nil {
		return d, nil
	}
	if d != nil {
		err = errors.Join(err, d.free())
	}
	return nil, c.raise(err)
}

// whole is the error of making d when a rank that is known to have failed would have a part in it (S4-22).
func (c *Comm) whole(what repair.What, d *Comm) error {
	op := names[what]
	switch {
	case what != repair.Create && what != repair.CreateGroup || c.Profile() == RTS:
		return c.core.Collective(op)
	case d == nil:
		return nil
	}
	return c.core.Dead(op, d.core.Group())
}
