package banyan

import (
	"fmt"

	"github.com/banyan-hpc/banyan/coll"
)

// Blocking and non-blocking collectives. A non-blocking one returns a request and goes on whenever a
// goroutine makes progress: one that waits for anything, one that tests, or that of [WithAsyncProgress]
// while the application computes. Several may be under way on a communicator. They match in the order
// in which each rank has called them, apart from the blocking ones. Their buffers are not to be touched
// until the request is complete, and are not touched any more then, whatever its outcome.
//
// With the failure of a rank a collective ends at each rank with ErrProcFailed or success, which under
// ULFM it is if that rank had success; a revocation ends it. Neither [Request.Cancel] nor the end of a
// context cancels one, since other ranks count on it. After [Comm.Free] those under way go on. One that
// is still under way when a validate of its communicator ends is an error.

// call describes a collective of this communicator. Wrong is an error in the arguments of this rank,
// or nil. InTurn: its caller may have left it.
func (c *Comm) call(wrong error, inTurn bool) coll.Call {
	return coll.Call{Wrong: wrong, Uniform: c.uniform(), InTurn: inTurn}
}

// uniform reports whether collectives leave the buffers of their callers alone until the outcome is
// agreed on. The unaware engine agrees on nothing, and intercommunicators have no collectives.
func (c *Comm) uniform() bool {
	return c.core.Uniformity() >= UniformCollectives && c.mode != modeUnaware && !c.IsInter()
}

// Barrier returns when all ranks have called it. Errors: ErrProcFailed,
// ErrRevoked, ErrClosed, ErrArgument on an intercommunicator.
//
// Under ULFM a collective that each failed rank had completed succeeds at every living rank that calls
// it; see the guide.
func (c *Comm) Barrier() error {
	if !c.plain() {
		return c.collective("barrier", func(c *Comm, inTurn bool) error { return c.doBarrier(inTurn) })
	}
	return c.notify(c.doBarrier(false))
}

func (c *Comm) doBarrier(inTurn bool) error {
	return c.coll.Barrier(c.core, c.call(nil, inTurn))
}

// Ibarrier is the non-blocking [Comm.Barrier]: the request is complete when all ranks have called it.
func (c *Comm) Ibarrier() Request {
	if !c.plain() {
		return c.bind(c.valid().Ibarrier())
	}
	return Request{c.coll.Ibarrier(c.core, c.call(nil, false)), c}
}

// Bcast copies the root's buf into that of every rank; all are of the same
// length. The root's is only read. Errors as of Barrier. After one the buf of another rank holds what it
// held, or the root's, or a part of each; see [Comm.SetUniformity].
func (c *Comm) Bcast(buf []byte, root int) error {
	if !c.plain() {
		return c.collective("bcast", func(c *Comm, inTurn bool) error { return c.doBcast(buf, root, inTurn) })
	}
	return c.notify(c.doBcast(buf, root, false))
}

func (c *Comm) doBcast(buf []byte, root int, inTurn bool) error {
	return c.coll.Bcast(c.core, c.call(nil, inTurn), buf, root)
}

// Ibcast is the non-blocking [Comm.Bcast].
func (c *Comm) Ibcast(buf []byte, root int) Request {
	if !c.plain() {
		return c.bind(c.valid().Ibcast(buf, root))
	}
	return Request{c.coll.Ibcast(c.core, c.call(nil, false), buf, root), c}
}

// Allreduce folds the bufs of all ranks with op and leaves the result in
// each of them, the same bytes at all ranks. All are of the same length; op folds its second argument into
// its first, is associative, and gets the operands in the order of ranks, or with AnyOrder as they come over the tree.
// It gets whole buffers. For numbers see [Allreduce].
//
// Errors as of Barrier, and ErrArgument for no op. After one a buf holds what it held, or that folded with what some
// other ranks gave, or the result, or a part of each: to call again with fewer ranks, keep a copy; see [Comm.SetUniformity].
func (c *Comm) Allreduce(buf []byte, op func(acc, in []byte), order ...Order) error {
	return c.allreduce(buf, coll.Fold{Op: op, AnyOrder: anyOrder(order)})
}

func (c *Comm) allreduce(buf []byte, f coll.Fold) error {
	if !c.plain() {
		return c.collective("allreduce", func(c *Comm, inTurn bool) error { return c.doAllreduce(buf, f, inTurn) })
	}
	return c.notify(c.doAllreduce(buf, f, false))
}

func (c *Comm) doAllreduce(buf []byte, f coll.Fold, inTurn bool) error {
	buf, wrong := c.toFold(coll.Allreduce.String(), buf, &f)
	return c.coll.Allreduce(c.core, c.call(wrong, inTurn), buf, f)
}

// Iallreduce is the non-blocking [Comm.Allreduce]. Op is called as by [Comm.Ireduce].
func (c *Comm) Iallreduce(buf []byte, op func(acc, in []byte), order ...Order) Request {
	return c.iallreduce(buf, coll.Fold{Op: op, AnyOrder: anyOrder(order)})
}

func (c *Comm) iallreduce(buf []byte, f coll.Fold) Request {
	if !c.plain() {
		return c.bind(c.valid().iallreduce(buf, f))
	}
	buf, wrong := c.toFold(coll.Allreduce.Nonblocking(), buf, &f)
	return Request{c.coll.Iallreduce(c.core, c.call(wrong, false), buf, f), c}
}

// Reduce folds as Allreduce does and leaves the result in the root's
// buf; those of the other ranks are undefined afterwards. Errors as of Allreduce, and the bufs after
// one, the root's too.
func (c *Comm) Reduce(buf []byte, op func(acc, in []byte), root int, order ...Order) error {
	return c.reduce(buf, coll.Fold{Op: op, AnyOrder: anyOrder(order)}, root)
}

func (c *Comm) reduce(buf []byte, f coll.Fold, root int) error {
	if !c.plain() {
		return c.collective("reduce", func(c *Comm, inTurn bool) error { return c.doReduce(buf, f, root, inTurn) })
	}
	return c.notify(c.doReduce(buf, f, root, false))
}

func (c *Comm) doReduce(buf []byte, f coll.Fold, root int, inTurn bool) error {
	buf, wrong := c.toFold(coll.Reduce.String(), buf, &f)
	return c.coll.Reduce(c.core, c.call(wrong, inTurn), buf, f, root)
}

// Ireduce is the non-blocking [Comm.Reduce]. Op is called by any goroutine that makes
// progress, without locks.
func (c *Comm) Ireduce(buf []byte, op func(acc, in []byte), root int, order ...Order) Request {
	return c.ireduce(buf, coll.Fold{Op: op, AnyOrder: anyOrder(order)}, root)
}

func (c *Comm) ireduce(buf []byte, f coll.Fold, root int) Request {
	if !c.plain() {
		return c.bind(c.valid().ireduce(buf, f, root))
	}
	buf, wrong := c.toFold(coll.Reduce.Nonblocking(), buf, &f)
	return Request{c.coll.Ireduce(c.core, c.call(wrong, false), buf, f, root), c}
}

// toFold gives the buffer that a rank has to fold: without an operation none, and an error.
func (c *Comm) toFold(what string, buf []byte, f *coll.Fold) ([]byte, error) {
	if f.Op != nil {
		return buf, nil
	}
	f.Op = func(acc, in []byte) {} // the other ranks may have none either
	return nil, fmt.Errorf("%s on %s: %w: no operation to fold with", what, c.Name(), ErrArgument)
}

// Gather puts the blocks of all ranks, which are of the same length, into the root's all, in the
// order of ranks; all is Size() times as long, and nil at the other ranks. The root's mine may lie in all
// where it belongs. The places of ranks that are agreed to have failed stay as they are. Errors as of
// Barrier; ErrArgument for lengths that do not fit. After one the root's all holds, at any place, what it
// held, or that rank's block, or a part of each; see [Comm.SetUniformity].
func (c *Comm) Gather(mine, all []byte, root int) error {
	if !c.plain() {
		return c.collective("gatherbytes", func(c *Comm, inTurn bool) error { return c.doGatherBytes(mine, all, root, inTurn) })
	}
	return c.notify(c.doGatherBytes(mine, all, root, false))
}

func (c *Comm) doGatherBytes(mine, all []byte, root int, inTurn bool) error {
	mine, all, wrong := c.blocks(coll.Gather.String(), mine, all, root)
	return c.coll.Gather(c.core, c.call(wrong, inTurn), mine, all, root)
}

// Igather is the non-blocking [Comm.Gather].
func (c *Comm) Igather(mine, all []byte, root int) Request {
	if !c.plain() {
		return c.bind(c.valid().Igather(mine, all, root))
	}
	mine, all, wrong := c.blocks(coll.Gather.Nonblocking(), mine, all, root)
	return Request{c.coll.Igather(c.core, c.call(wrong, false), mine, all, root), c}
}

// Scatter puts each rank's block of the root's all into its mine; blocks are of the same length. All
// is Size() times as long, and nil at the other ranks; it is only read. The root's mine may lie there where
// it belongs. Errors as of Barrier; ErrArgument for lengths that do not fit. After one mine holds what it
// held, or its block, or a part of each; see [Comm.SetUniformity].
func (c *Comm) Scatter(all, mine []byte, root int) error {
	if !c.plain() {
		return c.collective("scatterbytes", func(c *Comm, inTurn bool) error { return c.doScatterBytes(all, mine, root, inTurn) })
	}
	return c.notify(c.doScatterBytes(all, mine, root, false))
}

func (c *Comm) doScatterBytes(all, mine []byte, root int, inTurn bool) error {
	mine, all, wrong := c.blocks(coll.Scatter.String(), mine, all, root)
	return c.coll.Scatter(c.core, c.call(wrong, inTurn), all, mine, root)
}

// Iscatter is the non-blocking [Comm.Scatter].
func (c *Comm) Iscatter(all, mine []byte, root int) Request {
	if !c.plain() {
		return c.bind(c.valid().Iscatter(all, mine, root))
	}
	mine, all, wrong := c.blocks(coll.Scatter.Nonblocking(), mine, all, root)
	return Request{c.coll.Iscatter(c.core, c.call(wrong, false), all, mine, root), c}
}

// Allgather puts the blocks of all ranks, which are of the same length, into
// all of every rank, in the order of ranks; all is Size() times as long. Mine may
// lie in all where it belongs. Errors as of Barrier; ErrArgument for lengths that
// do not fit. After one all holds, at any place, what it held, or that rank's block, or a part of each; see
// [Comm.SetUniformity].
func (c *Comm) Allgather(mine, all []byte) error {
	if !c.plain() {
		return c.collective("allgatherbytes", func(c *Comm, inTurn bool) error { return c.doAllgatherBytes(mine, all, inTurn) })
	}
	return c.notify(c.doAllgatherBytes(mine, all, false))
}

func (c *Comm) doAllgatherBytes(mine, all []byte, inTurn bool) error {
	mine, all, wrong := c.blocks(coll.Allgather.String(), mine, all, c.Rank())
	return c.coll.Allgather(c.core, c.call(wrong, inTurn), mine, all)
}

// Iallgather is the non-blocking [Comm.Allgather].
func (c *Comm) Iallgather(mine, all []byte) Request {
	if !c.plain() {
		return c.bind(c.valid().Iallgather(mine, all))
	}
	mine, all, wrong := c.blocks(coll.Allgather.Nonblocking(), mine, all, c.Rank())
	return Request{c.coll.Iallgather(c.core, c.call(wrong, false), mine, all), c}
}

// blocks checks the lengths of an operation with a root, at the root. It gives the buffers with which
// this rank takes part: none if the lengths do not fit.
func (c *Comm) blocks(what string, mine, all []byte, root int) (_, _ []byte, wrong error) {
	if c.Rank() != root || len(all) == len(mine)*c.Size() {
		return mine, all, nil
	}
	return nil, nil, fmt.Errorf("%s on %s: %w: blocks of %d bytes for %d ranks do not fit %d bytes",
		what, c.Name(), ErrArgument, len(mine), c.Size(), len(all))
}
