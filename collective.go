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
		return c.raise(coll.Barrier[p2p.Unaware](c.core))
	}
	return c.raise(c.alike(repair.Barrier, coll.Barrier[p2p.Aware](c.core)))
}

// Bcast copies the root's buf into that of every rank; all are of the same
// length. Errors as of Barrier.
func (c *Comm) Bcast(buf []byte, root int) error {
	return c.raise(c.alike(repair.Bcast, c.bcast(buf, root)))
}

// bcast is Bcast for operations that are made of it: an error is theirs.
func (c *Comm) bcast(buf []byte, root int) error {
	if c.unaware {
		return coll.Bcast[p2p.Unaware](c.core, buf, root)
	}
	return coll.Bcast[p2p.Aware](c.core, buf, root)
}

// AllreduceBytes folds the bufs of all ranks with op and leaves the result in
// each of them. All are of the same length; op folds its second argument into
// its first, is associative, and gets the operands in the order of ranks. Errors
// as of Barrier. For numbers see [Allreduce].
func (c *Comm) AllreduceBytes(buf []byte, op func(acc, in []byte)) error {
	scratch := make([]byte, len(buf))
	if c.unaware {
		return c.raise(coll.Allreduce[p2p.Unaware](c.core, buf, scratch, op))
	}
	return c.raise(c.alike(repair.Allreduce, coll.Allreduce[p2p.Aware](c.core, buf, scratch, op)))
}

// ReduceBytes folds as AllreduceBytes does and leaves the result in the root's
// buf; those of the others are undefined afterwards. Errors as of Barrier.
func (c *Comm) ReduceBytes(buf []byte, op func(acc, in []byte), root int) error {
	scratch := make([]byte, len(buf))
	if c.unaware {
		return c.raise(coll.Reduce[p2p.Unaware](c.core, buf, scratch, op, root))
	}
	return c.raise(c.alike(repair.Reduce, coll.Reduce[p2p.Aware](c.core, buf, scratch, op, root)))
}

// AllgatherBytes puts the blocks of all ranks, which are of the same length, into
// everybody's all, in the order of ranks; all is Size() times as long. Mine may
// lie in all where it belongs. Errors as of Barrier; ErrArgument for lengths that
// do not fit.
func (c *Comm) AllgatherBytes(mine, all []byte) error {
	if len(all) != len(mine)*c.Size() {
		return c.raise(fmt.Errorf("allgather on %s: %w: blocks of %d bytes for %d ranks do not fit %d bytes",
			c.Name(), ErrArgument, len(mine), c.Size(), len(all)))
	}
	copy(all[len(mine)*c.Rank():], mine)
	return c.raise(c.alike(repair.Allgather, c.allgather(all)))
}

// allgather puts everybody's block into all.
func (c *Comm) allgather(all []byte) error {
	if c.unaware {
		return coll.Allgather[p2p.Unaware](c.core, all)
	}
	return coll.Allgather[p2p.Aware](c.core, all)
}
