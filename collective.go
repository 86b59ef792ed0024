package banyan

import (
	"fmt"
	"reflect"

	"github.com/banyan-hpc/banyan/coll"
	"github.com/banyan-hpc/banyan/internal/debug"
	"github.com/banyan-hpc/banyan/internal/vector"
	"github.com/banyan-hpc/banyan/p2p"
)

// Blocking and non-blocking collectives. A non-blocking collective returns a request. It proceeds whenever a
// goroutine makes progress: a goroutine that waits or tests, or the progress goroutine of [WithAsyncProgress] while
// the application computes. Several may be under way on a communicator. Each rank must call the non-blocking ones
// in the same order; the blocking ones match separately. The buffers of a collective must not be accessed until its
// request is complete. After that, also after an error, the library does not access them.
//
// When a rank fails, a collective ends at each rank with ErrProcFailed or with success. Under ULFM it succeeds if
// the failed rank had completed it. A revocation ends it. Neither [Request.Cancel] nor the end of a context cancels
// a collective, since other ranks depend on it. [Comm.Free] does not affect collectives under way. A collective
// that is still under way when a validate of its communicator ends is an error.
//
// On an intercommunicator the ranks of one side receive the data of the other side (MPI 4.1, 6.2.2). In a rooted
// operation the root passes [Root], the other ranks of its side pass [ProcNull], and the ranks of the other side
// pass the root's rank. Ranks that pass ProcNull have no buffers and do nothing. Scans are ErrArgument.

// uniform reports whether collectives leave the buffers of their callers unchanged until the
// outcome is agreed on. The unaware engine never agrees.
func (c *Comm) uniform() bool {
	return c.core.Uniformity() >= UniformCollectives && c.mode != modeUnaware
}

// Barrier returns when all ranks have called it. Errors: ErrProcFailed, ErrRevoked, ErrClosed.
//
// Under ULFM a collective that every failed rank had completed succeeds at every living rank that
// calls it; see docs/guide.md.
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

// Bcast copies the root's buf into the buf of every rank; all have the same length. The root's buf is
// only read. Errors as for Barrier. After an error the buf of another rank holds its old contents, the
// root's, or a mixture; see [Comm.SetUniformity].
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

// Allreduce folds the send buffers of all ranks with op and stores the result in recv at every rank, bit
// for bit the same. All buffers have the same length. Send is only read. The same slice may be passed for
// both, which folds in place; slices that overlap otherwise are ErrArgument. Op folds its second argument
// into its first and gets whole buffers. It must be associative. It gets the operands in the order of
// ranks, or, with AnyOrder, in the order in which the tree delivers them. For numbers see [Allreduce].
//
// Errors as for Barrier, and ErrArgument for a nil op. After an error recv is undefined and send is
// unchanged, so the operation can be repeated among fewer ranks. In place the operands are lost; see
// [Comm.SetUniformity].
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

// Reduce folds as Allreduce does and stores the result in the root's recv. The other ranks pass nil for
// recv. Errors, and the buffers after an error, as for Allreduce.
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

// Ireduce is the non-blocking [Comm.Reduce]. Any goroutine that makes progress may call op, without
// locks held.
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

// toReduce is toFold for a rooted operation: the other ranks have no recv.
func (c *Comm) toReduce(send, recv []byte, f *coll.Fold, root int) (_, _ []byte, wrong error) {
	switch {
	case !c.isRoot(root):
		send, _, wrong = c.toFold(send, send, f)
		return send, nil, wrong
	case root == Root:
		send = recv // this rank contributes nothing
	}
	return c.toFold(send, recv, f)
}

// toFold checks the buffers of this rank and returns the pair to use: empty ones with an error if
// an argument is wrong.
func (c *Comm) toFold(send, recv []byte, f *coll.Fold) (_, _ []byte, wrong error) {
	switch {
	case f.Op == nil:
		f.Op = func(acc, in []byte) {} // an error at one rank must not make the others panic
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

// Gather stores the blocks of all ranks in the root's all, in the order of ranks. Blocks have the same
// length. All is Size() times as long at the root, and nil at the other ranks. The root's mine may be its
// own block of all. The blocks of ranks that are agreed to have failed stay unchanged. Errors as for
// Barrier; ErrArgument for lengths that do not fit. After an error each block of the root's all holds its
// old contents, the rank's block, or a mixture; see [Comm.SetUniformity].
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

// Scatter copies each rank's block of the root's all into its mine. Blocks have the same length. All is
// Size() times as long at the root, where it is only read, and nil at the other ranks. The root's mine may
// be its own block of all. Errors as for Barrier; ErrArgument for lengths that do not fit. After an error
// mine holds its old contents, its block, or a mixture; see [Comm.SetUniformity].
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

// Allgather stores the blocks of all ranks in all at every rank, in the order of ranks. Blocks have the same
// length; all is Size() times as long. Mine may be this rank's block of all. Errors as for Barrier;
// ErrArgument for lengths that do not fit. After an error each block of all holds its old contents, the
// rank's block, or a mixture; see [Comm.SetUniformity].
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

// blocks checks the lengths of a rooted operation at the root and returns the buffers to use: empty
// ones if the lengths do not fit.
func (c *Comm) blocks(mine, all []byte, root int) (_, _ []byte, wrong error) {
	if !c.isRoot(root) || root == Root || len(all) == len(mine)*c.Size() {
		return mine, all, nil
	}
	return nil, nil, fmt.Errorf("%w: blocks of %d bytes for %d ranks do not fit %d bytes", ErrArgument,
		len(mine), c.Size(), len(all))
}

// Sum returns a + b; an operation for [Allreduce] and [Reduce].
func Sum[T Number](a, b T) T { return a + b }

// Prod returns a * b; an operation for [Allreduce] and [Reduce].
func Prod[T Number](a, b T) T { return a * b }

// Min returns the smaller value; an operation for [Allreduce] and [Reduce].
func Min[T Ordered](a, b T) T { return min(a, b) }

// Max returns the larger value; an operation for [Allreduce] and [Reduce].
func Max[T Ordered](a, b T) T { return max(a, b) }

// And returns the bitwise AND; an operation for [Allreduce] and [Reduce].
func And[T Integer](a, b T) T { return a & b }

// Or returns the bitwise OR; an operation for [Allreduce] and [Reduce].
func Or[T Integer](a, b T) T { return a | b }

// Xor returns the bitwise exclusive OR; an operation for [Allreduce] and [Reduce].
func Xor[T Integer](a, b T) T { return a ^ b }

// kernels are vector loops for the operations above, found by the address of the function. The
// functions are listed here because this code is not generic.
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
