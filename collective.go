package banyan

import (
	"fmt"

	"github.com/banyan-hpc/banyan/coll"
	"github.com/banyan-hpc/banyan/ft/repair"
	"github.com/banyan-hpc/banyan/p2p"
)

// Barrier returns when all ranks have called it. Errors: ErrProcFailed,
// ErrRevoked, ErrClosed, ErrArgument on an intercommunicator.
func (c *Comm) Barrier() error {
	if c.unaware {
		return c.raise(coll.Barrier[p2p.Unaware](c.core, coll.Setting{}))
	}
	if !c.staged() {
		return c.raise(coll.Barrier[p2p.Aware](c.core, coll.Setting{}))
	}
	w := c.borrow()
	s, _ := w.setting(repair.Barrier, nil)
	return c.raise(c.giveBack(w, coll.Barrier[p2p.Aware](c.core, s)))
}

// Bcast copies the root's buf into that of every rank; all are of the same
// length. The root's is only read. Errors as of Barrier. After one the buf of another rank holds what it
// held, or the root's, or a part of each; see [Comm.SetUniformity].
func (c *Comm) Bcast(buf []byte, root int) error {
	if !c.staged() {
		return c.raise(c.bcast(buf, root))
	}
	w := c.borrow()
	s, _ := w.setting(repair.Bcast, nil)
	return c.raise(c.giveBack(w, coll.Bcast[p2p.Aware](c.core, s, buf, root)))
}

// bcast is Bcast for operations that are made of it: an error is theirs.
func (c *Comm) bcast(buf []byte, root int) error {
	if c.unaware {
		return coll.Bcast[p2p.Unaware](c.core, coll.Setting{}, buf, root)
	}
	return coll.Bcast[p2p.Aware](c.core, coll.Setting{}, buf, root)
}

// AllreduceBytes folds the bufs of all ranks with op and leaves the result in
// each of them. All are of the same length; op folds its second argument into
// its first, is associative, and gets the operands in the order of ranks. For numbers see [Allreduce].
//
// Errors as of Barrier, and ErrArgument for no op. After one a buf holds what it held, or that folded with what some
// other ranks gave, or the result, or a part of each: to call again with fewer ranks, keep a copy; see [Comm.SetUniformity].
func (c *Comm) AllreduceBytes(buf []byte, op func(acc, in []byte)) error {
	w := c.borrow()
	buf, wrong := c.toFold("allreduce", buf, op)
	s, err := w.setting(repair.Allreduce, wrong)
	switch {
	case err != nil:
	case c.unaware:
		err = coll.Allreduce[p2p.Unaware](c.core, s, buf, op)
	default:
		err = coll.Allreduce[p2p.Aware](c.core, s, buf, op)
	}
	return c.raise(c.giveBack(w, err))
}

// ReduceBytes folds as AllreduceBytes does and leaves the result in the root's
// buf; those of the others are undefined afterwards. Errors as of AllreduceBytes, and the bufs after one, the root's too.
func (c *Comm) ReduceBytes(buf []byte, op func(acc, in []byte), root int) error {
	w := c.borrow()
	buf, wrong := c.toFold("reduce", buf, op)
	s, err := w.setting(repair.Reduce, wrong)
	switch {
	case err != nil:
	case c.unaware:
		err = coll.Reduce[p2p.Unaware](c.core, s, buf, op, root)
	default:
		err = coll.Reduce[p2p.Aware](c.core, s, buf, op, root)
	}
	return c.raise(c.giveBack(w, err))
}

// toFold gives what a rank has to fold: nothing, and what is wrong, without an operation.
func (c *Comm) toFold(what string, buf []byte, op func(acc, in []byte)) ([]byte, error) {
	if op != nil {
		return buf, nil
	}
	return nil, fmt.Errorf("%s on %s: %w: no operation to fold with", what, c.Name(), ErrArgument)
}

// AllgatherBytes puts the blocks of all ranks, which are of the same length, into
// everybody's all, in the order of ranks; all is Size() times as long. Mine may
// lie in all where it belongs. Errors as of Barrier; ErrArgument for lengths that
// do not fit. After one all holds, at any place, what it held, or that rank's block, or a part of each; see
// [Comm.SetUniformity].
func (c *Comm) AllgatherBytes(mine, all []byte) error {
	var wrong error
	if len(all) != len(mine)*c.Size() {
		wrong = fmt.Errorf("allgather on %s: %w: blocks of %d bytes for %d ranks do not fit %d bytes",
			c.Name(), ErrArgument, len(mine), c.Size(), len(all))
		mine, all = nil, nil
	}
	w := c.borrow()
	s, err := w.setting(repair.Allgather, wrong)
	if err == nil {
		err = c.allgather(s, mine, all)
	}
	return c.raise(c.giveBack(w, err))
}

// allgather puts everybody's block into all.
func (c *Comm) allgather(s coll.Setting, mine, all []byte) error {
	if c.unaware {
		return coll.Allgather[p2p.Unaware](c.core, s, mine, all)
	}
	return coll.Allgather[p2p.Aware](c.core, s, mine, all)
}
