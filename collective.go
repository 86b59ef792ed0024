package banyan

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/banyan-hpc/banyan/coll"
	"github.com/banyan-hpc/banyan/internal/vector"
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
		return c.collective("Barrier", func(c *Comm, inTurn bool) error { return c.doBarrier(inTurn) })
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
		return c.collective("Bcast", func(c *Comm, inTurn bool) error { return c.doBcast(buf, root, inTurn) })
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

// Allreduce folds the sends of all ranks with op and leaves the result in each recv, the same bytes at
// all ranks. All are of the same length. Send is only read; the same slice for both folds in place, and
// slices that overlap otherwise are ErrArgument. Op folds its second argument into its first, is
// associative, and gets the operands in the order of ranks, or with AnyOrder as they come over the tree.
// It gets whole buffers. For numbers see [Allreduce].
//
// Errors as of Barrier, and ErrArgument for no op. After one recv is undefined, and send is as it was: the
// operation can be called again with fewer ranks. In place it is lost; see [Comm.SetUniformity].
func (c *Comm) Allreduce(send, recv []byte, op func(acc, in []byte), order ...Order) error {
	return c.allreduce(send, recv, coll.Fold{Op: op, AnyOrder: anyOrder(order)})
}

func (c *Comm) allreduce(send, recv []byte, f coll.Fold) error {
	if !c.plain() {
		return c.collective("Allreduce", func(c *Comm, inTurn bool) error {
			return c.doAllreduce(send, recv, f, inTurn)
		})
	}
	return c.notify(c.doAllreduce(send, recv, f, false))
}

func (c *Comm) doAllreduce(send, recv []byte, f coll.Fold, inTurn bool) error {
	send, recv, wrong := c.toFold(send, recv, &f)
	return c.coll.Allreduce(c.core, c.call(wrong, inTurn), send, recv, f)
}

// Iallreduce is the non-blocking [Comm.Allreduce]. Op is called as by [Comm.Ireduce].
func (c *Comm) Iallreduce(send, recv []byte, op func(acc, in []byte), order ...Order) Request {
	return c.iallreduce(send, recv, coll.Fold{Op: op, AnyOrder: anyOrder(order)})
}

func (c *Comm) iallreduce(send, recv []byte, f coll.Fold) Request {
	if !c.plain() {
		return c.bind(c.valid().iallreduce(send, recv, f))
	}
	send, recv, wrong := c.toFold(send, recv, &f)
	return Request{c.coll.Iallreduce(c.core, c.call(wrong, false), send, recv, f), c}
}

// Reduce folds as Allreduce does and leaves the result in the root's recv. The other ranks give nil for
// it. Errors as of Allreduce, and the buffers after one.
func (c *Comm) Reduce(send, recv []byte, op func(acc, in []byte), root int, order ...Order) error {
	return c.reduce(send, recv, coll.Fold{Op: op, AnyOrder: anyOrder(order)}, root)
}

func (c *Comm) reduce(send, recv []byte, f coll.Fold, root int) error {
	if !c.plain() {
		return c.collective("Reduce", func(c *Comm, inTurn bool) error {
			return c.doReduce(send, recv, f, root, inTurn)
		})
	}
	return c.notify(c.doReduce(send, recv, f, root, false))
}

func (c *Comm) doReduce(send, recv []byte, f coll.Fold, root int, inTurn bool) error {
	send, recv, wrong := c.toReduce(send, recv, &f, root)
	return c.coll.Reduce(c.core, c.call(wrong, inTurn), send, recv, f, root)
}

// Ireduce is the non-blocking [Comm.Reduce]. Op is called by any goroutine that makes
// progress, without locks.
func (c *Comm) Ireduce(send, recv []byte, op func(acc, in []byte), root int, order ...Order) Request {
	return c.ireduce(send, recv, coll.Fold{Op: op, AnyOrder: anyOrder(order)}, root)
}

func (c *Comm) ireduce(send, recv []byte, f coll.Fold, root int) Request {
	if !c.plain() {
		return c.bind(c.valid().ireduce(send, recv, f, root))
	}
	send, recv, wrong := c.toReduce(send, recv, &f, root)
	return Request{c.coll.Ireduce(c.core, c.call(wrong, false), send, recv, f, root), c}
}

// toReduce is toFold for an operation with a root: the other ranks have no recv.
func (c *Comm) toReduce(send, recv []byte, f *coll.Fold, root int) (_, _ []byte, wrong error) {
	if c.Rank() == root {
		return c.toFold(send, recv, f)
	}
	send, _, wrong = c.toFold(send, send, f)
	return send, nil, wrong
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
	if !c.plain() {
		return c.collective("Gather", func(c *Comm, inTurn bool) error { return c.doGather(mine, all, root, inTurn) })
	}
	return c.notify(c.doGather(mine, all, root, false))
}

func (c *Comm) doGather(mine, all []byte, root int, inTurn bool) error {
	mine, all, wrong := c.blocks(mine, all, root)
	return c.coll.Gather(c.core, c.call(wrong, inTurn), mine, all, root)
}

// Igather is the non-blocking [Comm.Gather].
func (c *Comm) Igather(mine, all []byte, root int) Request {
	if !c.plain() {
		return c.bind(c.valid().Igather(mine, all, root))
	}
	mine, all, wrong := c.blocks(mine, all, root)
	return Request{c.coll.Igather(c.core, c.call(wrong, false), mine, all, root), c}
}

// Scatter puts each rank's block of the root's all into its mine; blocks are of the same length. All
// is Size() times as long, and nil at the other ranks; it is only read. The root's mine may lie there where
// it belongs. Errors as of Barrier; ErrArgument for lengths that do not fit. After one mine holds what it
// held, or its block, or a part of each; see [Comm.SetUniformity].
func (c *Comm) Scatter(all, mine []byte, root int) error {
	if !c.plain() {
		return c.collective("Scatter", func(c *Comm, inTurn bool) error { return c.doScatter(all, mine, root, inTurn) })
	}
	return c.notify(c.doScatter(all, mine, root, false))
}

func (c *Comm) doScatter(all, mine []byte, root int, inTurn bool) error {
	mine, all, wrong := c.blocks(mine, all, root)
	return c.coll.Scatter(c.core, c.call(wrong, inTurn), all, mine, root)
}

// Iscatter is the non-blocking [Comm.Scatter].
func (c *Comm) Iscatter(all, mine []byte, root int) Request {
	if !c.plain() {
		return c.bind(c.valid().Iscatter(all, mine, root))
	}
	mine, all, wrong := c.blocks(mine, all, root)
	return Request{c.coll.Iscatter(c.core, c.call(wrong, false), all, mine, root), c}
}

// Allgather puts the blocks of all ranks, which are of the same length, into all of every rank, in the order
// of ranks; all is Size() times as long. Mine may lie in all where it belongs. Errors as of Barrier;
// ErrArgument for lengths that do not fit. After one all holds, at any place, what it held, or that rank's
// block, or a part of each; see [Comm.SetUniformity].
func (c *Comm) Allgather(mine, all []byte) error {
	if !c.plain() {
		return c.collective("Allgather", func(c *Comm, inTurn bool) error { return c.doAllgather(mine, all, inTurn) })
	}
	return c.notify(c.doAllgather(mine, all, false))
}

func (c *Comm) doAllgather(mine, all []byte, inTurn bool) error {
	mine, all, wrong := c.blocks(mine, all, c.Rank())
	return c.coll.Allgather(c.core, c.call(wrong, inTurn), mine, all)
}

// Iallgather is the non-blocking [Comm.Allgather].
func (c *Comm) Iallgather(mine, all []byte) Request {
	if !c.plain() {
		return c.bind(c.valid().Iallgather(mine, all))
	}
	mine, all, wrong := c.blocks(mine, all, c.Rank())
	return Request{c.coll.Iallgather(c.core, c.call(wrong, false), mine, all), c}
}

// blocks checks the lengths of an operation with a root, at the root. It gives the buffers with which
// this rank takes part: none if the lengths do not fit.
func (c *Comm) blocks(mine, all []byte, root int) (_, _ []byte, wrong error) {
	if c.Rank() != root || len(all) == len(mine)*c.Size() {
		return mine, all, nil
	}
	return nil, nil, fmt.Errorf("%w: blocks of %d bytes for %d ranks do not fit %d bytes", ErrArgument,
		len(mine), c.Size(), len(all))
}

// Order says in which order a reduction may take its operands.
type Order uint8

const (
	// InOrder is the default: the order of ranks. The operation need not be commutative.
	InOrder Order = iota
	// AnyOrder: as they come over the tree. The operation is commutative. Over the same tree it is the same order
	// each time. All ranks say the same.
	AnyOrder
)

func anyOrder(order []Order) bool { return slices.Contains(order, AnyOrder) }

// elementwise makes of an operation on numbers one on their memory. Nil passes through.
func elementwise[T Number](op func(a, b T) T, order []Order) coll.Fold {
	f := coll.Fold{Unit: size[T](), AnyOrder: anyOrder(order)}
	if op == nil {
		return f
	}
	f.Op = kernels.Find(op)
	if f.Swaps = f.Op != nil; !f.Swaps {
		f.Op = fold(op)
	}
	return f
}

// fold makes of an operation on elements one on their memory.
func fold[T Number](op func(a, b T) T) coll.Op {
	return func(acc, in []byte) {
		a, b := numbers[T](acc), numbers[T](in)
		b = b[:len(a)]
		for i := range a {
			a[i] = op(a[i], b[i])
		}
	}
}

// Ordered is Number without the complex ones.
type Ordered interface {
	~int8 | ~int16 | ~int32 | ~int64 | ~int | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uint | ~float32 | ~float64
}

// Integer is Number without what has a fraction.
type Integer interface {
	~int8 | ~int16 | ~int32 | ~int64 | ~int | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uint
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

// Located is a value with the place, mostly the rank, where it was found: what [MinLoc] and [MaxLoc] compare.
type Located[T Ordered] struct {
	Value T
	Place int
}

// MinLoc gives the smaller value with its place, of equal ones that with the smaller place; an operation for
// [AllreduceLocated] and [ReduceLocated].
func MinLoc[T Ordered](a, b Located[T]) Located[T] {
	if b.Value < a.Value || b.Value == a.Value && b.Place < a.Place {
		return b
	}
	return a
}

// MaxLoc gives the larger value with its place, of equal ones that with the smaller place; an operation for
// [AllreduceLocated] and [ReduceLocated].
func MaxLoc[T Ordered](a, b Located[T]) Located[T] {
	if b.Value > a.Value || b.Value == a.Value && b.Place < a.Place {
		return b
	}
	return a
}

// AllreduceLocated is [Allreduce] of values with places.
func AllreduceLocated[T Ordered](
	c *Comm, send, recv []Located[T], op func(a, b Located[T]) Located[T], order ...Order,
) error {
	return c.allreduce(locatedBytes(send), locatedBytes(recv), eachLocated(op, order))
}

// ReduceLocated is [Reduce] of values with places.
func ReduceLocated[T Ordered](
	c *Comm, send, recv []Located[T], op func(a, b Located[T]) Located[T], root int, order ...Order,
) error {
	return c.reduce(locatedBytes(send), locatedBytes(recv), eachLocated(op, order), root)
}

func eachLocated[T Ordered](op func(a, b Located[T]) Located[T], order []Order) coll.Fold {
	f := coll.Fold{Unit: locatedSize[T](), AnyOrder: anyOrder(order)}
	if op != nil {
		f.Op = func(acc, in []byte) {
			a, b := locateds[T](acc), locateds[T](in)
			for i := range a {
				a[i] = op(a[i], b[i])
			}
		}
	}
	return f
}
