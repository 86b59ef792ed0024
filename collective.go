package banyan

import (
	"fmt"
	"reflect"

	"github.com/banyan-hpc/banyan/coll"
	"github.com/banyan-hpc/banyan/internal/debug"
	"github.com/banyan-hpc/banyan/internal/vector"
	"github.com/banyan-hpc/banyan/p2p"
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
//
// On an intercommunicator the ranks of one side get what those of the other give (MPI 4.1, 6.2.2). Where there is a
// root, that rank names [Root], the other ranks of its side [ProcNull], and those of the other side its rank; the
// others of its side have no buffers and nothing to do. Scans are ErrArgument.

// uniform reports whether collectives leave the buffers of their callers alone until the outcome is
// agreed on. The unaware engine agrees on nothing.
func (c *Comm) uniform() bool {
	return c.core.Uniformity() >= UniformCollectives && c.mode != modeUnaware
}

// Barrier returns when all ranks have called it. Errors: ErrProcFailed,
// ErrRevoked, ErrClosed.
//
// Under ULFM a collective that each failed rank had completed succeeds at every living rank that calls
// it; see the guide.
func (c *Comm) Barrier() error {
	if !c.usual() {
		return c.barrierOther()
	}
	return c.notify(c.doBarrier(manner{}))
}

func (c *Comm) doBarrier(m manner) error {
	return c.coll.Barrier(c.core, c.call(nil, m))
}

// Ibarrier is the non-blocking [Comm.Barrier]: the request is complete when all ranks have called it.
func (c *Comm) Ibarrier() Request {
	if !c.usual() {
		return c.icollective(debug.Plain("Ibarrier"), nil, nil, func(c *Comm, _, _ []byte, m manner) p2p.Handle {
			return c.coll.Ibarrier(c.core, c.call(nil, m))
		})
	}
	return Request{c.coll.Ibarrier(c.core, c.call(nil, manner{})), c}
}

// Bcast copies the root's buf into that of every rank; all are of the same
// length. The root's is only read. Errors as of Barrier. After one the buf of another rank holds what it
// held, or the root's, or a part of each; see [Comm.SetUniformity].
func (c *Comm) Bcast(buf []byte, root int) error {
	if !c.usual() {
		return c.bcastOther(buf, root, debug.Bytes)
	}
	return c.notify(c.doBcast(buf, root, manner{}))
}

func (c *Comm) bcastOther(buf []byte, root int, k debug.Kind) error {
	return c.collective(rooted("Bcast", buf, root, k), nil, func(c *Comm, m manner) error {
		return c.doBcast(buf, root, m)
	})
}

func (c *Comm) doBcast(buf []byte, root int, m manner) error {
	return c.coll.Bcast(c.core, c.call(nil, m), buf, root)
}

// Ibcast is the non-blocking [Comm.Bcast].
func (c *Comm) Ibcast(buf []byte, root int) Request {
	if !c.usual() {
		return c.ibcastOther(buf, root, debug.Bytes)
	}
	return Request{c.startBcast(buf, root, manner{}), c}
}

func (c *Comm) ibcastOther(buf []byte, root int, k debug.Kind) Request {
	in, out := c.atRoot(buf, root), buf
	if in != nil {
		out = nil
	}
	return c.icollective(rooted("Ibcast", buf, root, k), in, out, func(c *Comm, in, out []byte, m manner) p2p.Handle {
		if in != nil {
			out = in
		}
		return c.startBcast(out, root, m)
	})
}

func (c *Comm) startBcast(buf []byte, root int, m manner) p2p.Handle {
	return c.coll.Ibcast(c.core, c.call(nil, m), buf, root)
}

// Allreduce folds the sends of all ranks with op and leaves the result in each recv, the same bytes at
// all ranks. All are of the same length. Send is only read; the same slice for both folds in place, and
// slices that overlap otherwise are ErrArgument. Op folds its second argument into its first, is
// associative, and gets the operands in the order of ranks, or with AnyOrder as they come over the tree.
// It gets whole buffers. For numbers see [Allreduce].
//
// Errors as of Barrier, and ErrArgument for no op. After one recv is undefined, and send is as it was: the
// operation can be called again with fewer ranks. In place it is lost; see [Comm.SetUniformity].
func (c *Comm) Allreduce(send, recv []byte, op func(acc, in []byte), order ...Order) error {
	return c.allreduce(send, recv, coll.Fold{Op: op, AnyOrder: anyOrder(order)}, op)
}

// allreduce is Allreduce with f, made of op.
func (c *Comm) allreduce(send, recv []byte, f coll.Fold, op any) error {
	if !c.usual() {
		return c.collective(folding("Allreduce", send, debug.None, f), op, func(c *Comm, m manner) error {
			return c.doAllreduce(send, recv, f, m)
		})
	}
	return c.notify(c.doAllreduce(send, recv, f, manner{}))
}

func (c *Comm) doAllreduce(send, recv []byte, f coll.Fold, m manner) error {
	send, recv, wrong := c.toFold(send, recv, &f)
	return c.coll.Allreduce(c.core, c.call(wrong, m), send, recv, f)
}

// Iallreduce is the non-blocking [Comm.Allreduce]. Op is called as by [Comm.Ireduce].
func (c *Comm) Iallreduce(send, recv []byte, op func(acc, in []byte), order ...Order) Request {
	return c.iallreduce(send, recv, coll.Fold{Op: op, AnyOrder: anyOrder(order)}, op)
}

func (c *Comm) iallreduce(send, recv []byte, f coll.Fold, op any) Request {
	if !c.usual() {
		d := folding("Iallreduce", send, debug.None, f)
		return c.icollective(d.By(op), send, recv, func(c *Comm, send, recv []byte, m manner) p2p.Handle {
			return c.startAllreduce(send, recv, f, m)
		})
	}
	return Request{c.startAllreduce(send, recv, f, manner{}), c}
}

func (c *Comm) startAllreduce(send, recv []byte, f coll.Fold, m manner) p2p.Handle {
	send, recv, wrong := c.toFold(send, recv, &f)
	return c.coll.Iallreduce(c.core, c.call(wrong, m), send, recv, f)
}

// Reduce folds as Allreduce does and leaves the result in the root's recv. The other ranks give nil for
// it. Errors as of Allreduce, and the buffers after one.
func (c *Comm) Reduce(send, recv []byte, op func(acc, in []byte), root int, order ...Order) error {
	return c.reduce(send, recv, coll.Fold{Op: op, AnyOrder: anyOrder(order)}, op, root)
}

func (c *Comm) reduce(send, recv []byte, f coll.Fold, op any, root int) error {
	if !c.usual() {
		return c.collective(folding("Reduce", send, root, f), op, func(c *Comm, m manner) error {
			return c.doReduce(send, recv, f, root, m)
		})
	}
	return c.notify(c.doReduce(send, recv, f, root, manner{}))
}

func (c *Comm) doReduce(send, recv []byte, f coll.Fold, root int, m manner) error {
	send, recv, wrong := c.toReduce(send, recv, &f, root)
	return c.coll.Reduce(c.core, c.call(wrong, m), send, recv, f, root)
}

// Ireduce is the non-blocking [Comm.Reduce]. Op is called by any goroutine that makes
// progress, without locks.
func (c *Comm) Ireduce(send, recv []byte, op func(acc, in []byte), root int, order ...Order) Request {
	return c.ireduce(send, recv, coll.Fold{Op: op, AnyOrder: anyOrder(order)}, op, root)
}

func (c *Comm) ireduce(send, recv []byte, f coll.Fold, op any, root int) Request {
	if !c.usual() {
		d, out := folding("Ireduce", send, root, f), c.atRoot(recv, root)
		return c.icollective(d.By(op), send, out, func(c *Comm, send, recv []byte, m manner) p2p.Handle {
			return c.startReduce(send, recv, f, root, m)
		})
	}
	return Request{c.startReduce(send, recv, f, root, manner{}), c}
}

func (c *Comm) startReduce(send, recv []byte, f coll.Fold, root int, m manner) p2p.Handle {
	send, recv, wrong := c.toReduce(send, recv, &f, root)
	return c.coll.Ireduce(c.core, c.call(wrong, m), send, recv, f, root)
}

// toReduce is toFold for an operation with a root: the other ranks have no recv.
func (c *Comm) toReduce(send, recv []byte, f *coll.Fold, root int) (_, _ []byte, wrong error) {
	switch {
	case !c.isRoot(root):
		send, _, wrong = c.toFold(send, send, f)
		return send, nil, wrong
	case root == Root:
		send = recv // it gives nothing
	}
	return c.toFold(send, recv, f)
}

// toFold gives the buffers with which a rank takes part: with a wrong argument none, and an error.
func (c *Comm) toFold(send, recv []byte, f *coll.Fold) (_, _ []byte, wrong error) {
	switch {
	case f.Op == nil:
		f.Op = func(acc, in []byte) {} // the other ranks may have none either
		wrong = fmt.Errorf("%w: no operation to fold with", ErrArgument)
	case len(send) != len(recv):
		wrong = fmt.Errorf("%w: %d bytes to send and %d to receive: give slices of one length",
			ErrArgument, len(send), len(recv))
	case overlap(send, recv):
		wrong = fmt.Errorf("%w: the two slices overlap: give the same one twice, or two", ErrArgument)
	default:
		return send, recv, nil
	}
	return nil, nil, wrong
}

// Gather puts the blocks of all ranks, which are of the same length, into the root's all, in the
// order of ranks; all is Size() times as long, and nil at the other ranks. The root's mine may lie in all
// where it belongs. The places of ranks that are agreed to have failed stay as they are. Errors as of
// Barrier; ErrArgument for lengths that do not fit. After one the root's all holds, at any place, what it
// held, or that rank's block, or a part of each; see [Comm.SetUniformity].
func (c *Comm) Gather(mine, all []byte, root int) error {
	if !c.usual() {
		return c.gatherOther(mine, all, root, debug.Bytes)
	}
	return c.notify(c.doGather(mine, all, root, manner{}))
}

func (c *Comm) gatherOther(mine, all []byte, root int, k debug.Kind) error {
	return c.collective(rooted("Gather", mine, root, k), nil, func(c *Comm, m manner) error {
		return c.doGather(mine, all, root, m)
	})
}

func (c *Comm) doGather(mine, all []byte, root int, m manner) error {
	mine, all, wrong := c.blocks(mine, all, root)
	return c.coll.Gather(c.core, c.call(wrong, m), mine, all, root)
}

// Igather is the non-blocking [Comm.Gather].
func (c *Comm) Igather(mine, all []byte, root int) Request {
	if !c.usual() {
		return c.igatherOther(mine, all, root, debug.Bytes)
	}
	return Request{c.startGather(mine, all, root, manner{}), c}
}

func (c *Comm) igatherOther(mine, all []byte, root int, k debug.Kind) Request {
	d, all := rooted("Igather", mine, root, k), c.atRoot(all, root)
	return c.icollective(d, mine, all, func(c *Comm, mine, all []byte, m manner) p2p.Handle {
		return c.startGather(mine, all, root, m)
	})
}

func (c *Comm) startGather(mine, all []byte, root int, m manner) p2p.Handle {
	mine, all, wrong := c.blocks(mine, all, root)
	return c.coll.Igather(c.core, c.call(wrong, m), mine, all, root)
}

// Scatter puts each rank's block of the root's all into its mine; blocks are of the same length. All
// is Size() times as long, and nil at the other ranks; it is only read. The root's mine may lie there where
// it belongs. Errors as of Barrier; ErrArgument for lengths that do not fit. After one mine holds what it
// held, or its block, or a part of each; see [Comm.SetUniformity].
func (c *Comm) Scatter(all, mine []byte, root int) error {
	if !c.usual() {
		return c.scatterOther(all, mine, root, debug.Bytes)
	}
	return c.notify(c.doScatter(all, mine, root, manner{}))
}

func (c *Comm) scatterOther(all, mine []byte, root int, k debug.Kind) error {
	return c.collective(rooted("Scatter", mine, root, k), nil, func(c *Comm, m manner) error {
		return c.doScatter(all, mine, root, m)
	})
}

func (c *Comm) doScatter(all, mine []byte, root int, m manner) error {
	mine, all, wrong := c.blocks(mine, all, root)
	return c.coll.Scatter(c.core, c.call(wrong, m), all, mine, root)
}

// Iscatter is the non-blocking [Comm.Scatter].
func (c *Comm) Iscatter(all, mine []byte, root int) Request {
	if !c.usual() {
		return c.iscatterOther(all, mine, root, debug.Bytes)
	}
	return Request{c.startScatter(all, mine, root, manner{}), c}
}

func (c *Comm) iscatterOther(all, mine []byte, root int, k debug.Kind) Request {
	return c.icollective(rooted("Iscatter", mine, root, k), c.atRoot(all, root), mine, func(c *Comm, all, mine []byte, m manner) p2p.Handle {
		return c.startScatter(all, mine, root, m)
	})
}

func (c *Comm) startScatter(all, mine []byte, root int, m manner) p2p.Handle {
	mine, all, wrong := c.blocks(mine, all, root)
	return c.coll.Iscatter(c.core, c.call(wrong, m), all, mine, root)
}

// Allgather puts the blocks of all ranks, which are of the same length, into all of every rank, in the order
// of ranks; all is Size() times as long. Mine may lie in all where it belongs. Errors as of Barrier;
// ErrArgument for lengths that do not fit. After one all holds, at any place, what it held, or that rank's
// block, or a part of each; see [Comm.SetUniformity].
func (c *Comm) Allgather(mine, all []byte) error {
	if !c.usual() {
		return c.allgatherOther(mine, all, debug.Bytes)
	}
	return c.notify(c.doAllgather(mine, all, manner{}))
}

func (c *Comm) allgatherOther(mine, all []byte, k debug.Kind) error {
	return c.collective(rooted("Allgather", mine, debug.None, k), nil, func(c *Comm, m manner) error {
		return c.doAllgather(mine, all, m)
	})
}

func (c *Comm) doAllgather(mine, all []byte, m manner) error {
	mine, all, wrong := c.blocks(mine, all, c.Rank())
	return c.coll.Allgather(c.core, c.call(wrong, m), mine, all)
}

// Iallgather is the non-blocking [Comm.Allgather].
func (c *Comm) Iallgather(mine, all []byte) Request {
	if !c.usual() {
		return c.iallgatherOther(mine, all, debug.Bytes)
	}
	return Request{c.startAllgather(mine, all, manner{}), c}
}

func (c *Comm) iallgatherOther(mine, all []byte, k debug.Kind) Request {
	return c.icollective(rooted("Iallgather", mine, debug.None, k), mine, all, func(c *Comm, mine, all []byte, m manner) p2p.Handle {
		return c.startAllgather(mine, all, m)
	})
}

func (c *Comm) startAllgather(mine, all []byte, m manner) p2p.Handle {
	mine, all, wrong := c.blocks(mine, all, c.Rank())
	return c.coll.Iallgather(c.core, c.call(wrong, m), mine, all)
}

// blocks checks the lengths of an operation with a root, at the root. It gives the buffers with which
// this rank takes part: none if the lengths do not fit.
func (c *Comm) blocks(mine, all []byte, root int) (_, _ []byte, wrong error) {
	if !c.isRoot(root) || root == Root || len(all) == len(mine)*c.Size() {
		return mine, all, nil
	}
	return nil, nil, fmt.Errorf("%w: blocks of %d bytes for %d ranks do not fit %d bytes", ErrArgument,
		len(mine), c.Size(), len(all))
}

// Sum adds; an operation for [Allreduce] and [Reduce].
func Sum[T Number](a, b T) T { return a + b }

// Prod multiplies; an operation for [Allreduce] and [Reduce].
func Prod[T Number](a, b T) T { return a * b }

// Min gives the smaller; an operation for [Allreduce] and [Reduce].
func Min[T Ordered](a, b T) T { return min(a, b) }

// Max gives the larger; an operation for [Allreduce] and [Reduce].
func Max[T Ordered](a, b T) T { return max(a, b) }

// And gives the bits that both have; an operation for [Allreduce] and [Reduce].
func And[T Integer](a, b T) T { return a & b }

// Or gives the bits that either has; an operation for [Allreduce] and [Reduce].
func Or[T Integer](a, b T) T { return a | b }

// Xor gives the bits that one of the two has; an operation for [Allreduce] and [Reduce].
func Xor[T Integer](a, b T) T { return a ^ b }

// kernels are the loops of the operations above. The functions are named where nothing is generic.
var kernels = vector.Table{
	reflect.Int8:    vector.KernelsOf(Sum[int8], Prod[int8], Min[int8], Max[int8]),
	reflect.Int16:   vector.KernelsOf(Sum[int16], Prod[int16], Min[int16], Max[int16]),
	reflect.Int32:   vector.KernelsOf(Sum[int32], Prod[int32], Min[int32], Max[int32]),
	reflect.Int64:   vector.KernelsOf(Sum[int64], Prod[int64], Min[int64], Max[int64]),
	reflect.Int:     vector.KernelsOf(Sum[int], Prod[int], Min[int], Max[int]),
	reflect.Uint8:   vector.KernelsOf(Sum[uint8], Prod[uint8], Min[uint8], Max[uint8]),
	reflect.Uint16:  vector.KernelsOf(Sum[uint16], Prod[uint16], Min[uint16], Max[uint16]),
	reflect.Uint32:  vector.KernelsOf(Sum[uint32], Prod[uint32], Min[uint32], Max[uint32]),
	reflect.Uint64:  vector.KernelsOf(Sum[uint64], Prod[uint64], Min[uint64], Max[uint64]),
	reflect.Uint:    vector.KernelsOf(Sum[uint], Prod[uint], Min[uint], Max[uint]),
	reflect.Float32: vector.KernelsOf(Sum[float32], Prod[float32], Min[float32], Max[float32]),
	reflect.Float64: vector.KernelsOf(Sum[float64], Prod[float64], Min[float64], Max[float64]),
}
