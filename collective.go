package banyan

import (
	"fmt"

	"github.com/banyan-hpc/banyan/coll"
	"github.com/banyan-hpc/banyan/ft/repair"
	"github.com/banyan-hpc/banyan/p2p"
)

// Barrier returns when all ranks have called it. Errors: ErrProcFailed,
// ErrRevoked, ErrClosed, ErrArgument on an intercommunicator.
//
// Under ULFM a collective that each dead rank had completed succeeds at every living rank that calls it; see the guide.
func (c *Comm) Barrier() error {
	c = c.valid()
	if !c.staged() {
		return c.raise(c.barrier(coll.Setting{Trees: &c.trees}))
	}
	w := c.borrow()
	s := w.setting(repair.Barrier, nil)
	return c.raise(c.giveBack(w, c.barrier(s)))
}

func (c *Comm) barrier(s coll.Setting) error {
	if c.careless() {
		return coll.Barrier[p2p.Unaware](c.core, s)
	}
	return coll.Barrier[p2p.Aware](c.core, s)
}

// careless reports whether messages of collectives do not look for failures.
func (c *Comm) careless() bool { return c.mode == modeUnaware || c.trees.Design == Unaware }

// Bcast copies the root's buf into that of every rank; all are of the same
// length. The root's is only read. Errors as of Barrier. After one the buf of another rank holds what it
// held, or the root's, or a part of each; see [Comm.SetUniformity].
func (c *Comm) Bcast(buf []byte, root int) error {
	c = c.valid()
	if !c.staged() {
		return c.raise(c.bcast(buf, root))
	}
	w := c.borrow()
	s := w.setting(repair.Bcast, nil)
	return c.raise(c.giveBack(w, coll.Bcast[p2p.Aware](c.core, s, buf, root)))
}

// bcast is Bcast for operations that are made of it: an error is theirs.
func (c *Comm) bcast(buf []byte, root int) error {
	if c.careless() {
		return coll.Bcast[p2p.Unaware](c.core, coll.Setting{Trees: &c.trees}, buf, root)
	}
	return coll.Bcast[p2p.Aware](c.core, coll.Setting{Trees: &c.trees}, buf, root)
}

// AllreduceBytes folds the bufs of all ranks with op and leaves the result in
// each of them, the same bytes at all ranks. All are of the same length; op folds its second argument into
// its first, is associative, and gets the operands in the order of ranks, or with AnyOrder as they come over the tree.
// It gets whole buffers. For numbers see [Allreduce].
//
// Errors as of Barrier, and ErrArgument for no op. After one a buf holds what it held, or that folded with what some
// other ranks gave, or the result, or a part of each: to call again with fewer ranks, keep a copy; see [Comm.SetUniformity].
func (c *Comm) AllreduceBytes(buf []byte, op func(acc, in []byte), order ...Order) error {
	return c.allreduce(buf, coll.Fold{Op: op, AnyOrder: anyOrder(order)})
}

func (c *Comm) allreduce(buf []byte, f coll.Fold) error {
	c = c.valid()
	w := c.borrow()
	buf, wrong := c.toFold("allreduce", buf, &f)
	s := w.setting(repair.Allreduce, wrong)
	var err error
	if c.careless() {
		err = coll.Allreduce[p2p.Unaware](c.core, s, buf, f)
	} else {
		err = coll.Allreduce[p2p.Aware](c.core, s, buf, f)
	}
	return c.raise(c.giveBack(w, err))
}

// ReduceBytes folds as AllreduceBytes does and leaves the result in the root's
// buf; those of the others are undefined afterwards. Errors as of AllreduceBytes, and the bufs after one, the root's too.
func (c *Comm) ReduceBytes(buf []byte, op func(acc, in []byte), root int, order ...Order) error {
	return c.reduce(buf, coll.Fold{Op: op, AnyOrder: anyOrder(order)}, root)
}

func (c *Comm) reduce(buf []byte, f coll.Fold, root int) error {
	c = c.valid()
	w := c.borrow()
	buf, wrong := c.toFold("reduce", buf, &f)
	s := w.setting(repair.Reduce, wrong)
	var err error
	if c.careless() {
		err = coll.Reduce[p2p.Unaware](c.core, s, buf, f, root)
	} else {
		err = coll.Reduce[p2p.Aware](c.core, s, buf, f, root)
	}
	return c.raise(c.giveBack(w, err))
}

// toFold gives what a rank has to fold: nothing, and what is wrong, without an operation.
func (c *Comm) toFold(what string, buf []byte, f *coll.Fold) ([]byte, error) {
	if f.Op != nil {
		return buf, nil
	}
	f.Op = func(acc, in []byte) {} // the others may have nothing either
	return nil, fmt.Errorf("%s on %s: %w: no operation to fold with", what, c.Name(), ErrArgument)
}

// GatherBytes puts the blocks of all ranks, which are of the same length, into the root's all, in the order of ranks; all is
// Size() times as long, and nil at the others. The root's mine may lie in all where it belongs. The places of ranks that are agreed
// to be gone stay as they are. Errors as of Barrier; ErrArgument for lengths that do not fit. After one the root's all
// holds, at any place, what it held, or that rank's block, or a part of each; see [Comm.SetUniformity].
func (c *Comm) GatherBytes(mine, all []byte, root int) error {
	c = c.valid()
	wrong := c.blocks("gather", mine, all, root)
	if wrong != nil {
		mine, all = nil, nil
	}
	w := c.borrow()
	s := w.setting(repair.Gather, wrong)
	var err error
	if c.careless() {
		err = coll.Gather[p2p.Unaware](c.core, s, mine, all, root)
	} else {
		err = coll.Gather[p2p.Aware](c.core, s, mine, all, root)
	}
	return c.raise(c.giveBack(w, err))
}

// ScatterBytes puts each rank's block of the root's all into its mine; blocks are of the same length. All is Size() times as
// long, and nil at the others; it is only read. The root's mine may lie there where it belongs. Errors as of Barrier; ErrArgument
// for lengths that do not fit. After one mine holds what it held, or its block, or a part of each; see [Comm.SetUniformity].
func (c *Comm) ScatterBytes(all, mine []byte, root int) error {
	c = c.valid()
	wrong := c.blocks("scatter", mine, all, root)
	if wrong != nil {
		mine, all = nil, nil
	}
	w := c.borrow()
	s := w.setting(repair.Scatter, wrong)
	var err error
	if c.careless() {
		err = coll.Scatter[p2p.Unaware](c.core, s, all, mine, root)
	} else {
		err = coll.Scatter[p2p.Aware](c.core, s, all, mine, root)
	}
	return c.raise(c.giveBack(w, err))
}

// blocks says what is wrong with the lengths of an operation with a root, where they count.
func (c *Comm) blocks(what string, mine, all []byte, root int) error {
	if c.Rank() != root || len(all) == len(mine)*c.Size() {
		return nil
	}
	return fmt.Errorf("%s on %s: %w: blocks of %d bytes for %d ranks do not fit %d bytes",
		what, c.Name(), ErrArgument, len(mine), c.Size(), len(all))
}

// AllgatherBytes puts the blocks of all ranks, which are of the same length, into
// everybody's all, in the order of ranks; all is Size() times as long. Mine may
// lie in all where it belongs. Errors as of Barrier; ErrArgument for lengths that
// do not fit. After one all holds, at any place, what it held, or that rank's block, or a part of each; see
// [Comm.SetUniformity].
func (c *Comm) AllgatherBytes(mine, all []byte) error {
	c = c.valid()
	var wrong error
	if len(all) != len(mine)*c.Size() {
		wrong = fmt.Errorf("allgather on %s: %w: blocks of %d bytes for %d ranks do not fit %d bytes",
			c.Name(), ErrArgument, len(mine), c.Size(), len(all))
		mine, all = nil, nil
	}
	w := c.borrow()
	return c.raise(c.giveBack(w, c.allgather(w.setting(repair.Allgather, wrong), mine, all)))
}

// allgather puts everybody's block into all.
func (c *Comm) allgather(s coll.Setting, mine, all []byte) error {
	if c.careless() {
		return coll.Allgather[p2p.Unaware](c.core, s, mine, all)
	}
	return coll.Allgather[p2p.Aware](c.core, s, mine, all)
}
