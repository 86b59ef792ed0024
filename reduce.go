package banyan

import (
	"reflect"
	"slices"

	"github.com/banyan-hpc/banyan/coll"
	"github.com/banyan-hpc/banyan/internal/vector"
)

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
	f.Op = kernelOf(op)
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

// A call of a function takes longer than an element takes to come out of memory. So the operations of
// this package are recognized by their code, and folded by loops that have them inside. A function value
// that is made in a generic function is another one: it is called for each element, as the functions of
// the application are.

// kernels are the operations on one type that have loops. Of all of them two operands give the same in
// either order, but for the choice between two NaNs.
type kernels [4]struct {
	code uintptr
	fold coll.Op
}

// find gives the loop of an operation with that code, or nil.
func (k *kernels) find(code uintptr) coll.Op {
	for i := range k {
		if k[i].code == code {
			return k[i].fold
		}
	}
	return nil
}

// The kernels of each type. They are made where nothing is generic.
var (
	int8Kernels    = kernelsOf(Sum[int8], Prod[int8], Min[int8], Max[int8])
	int16Kernels   = kernelsOf(Sum[int16], Prod[int16], Min[int16], Max[int16])
	int32Kernels   = kernelsOf(Sum[int32], Prod[int32], Min[int32], Max[int32])
	int64Kernels   = kernelsOf(Sum[int64], Prod[int64], Min[int64], Max[int64])
	intKernels     = kernelsOf(Sum[int], Prod[int], Min[int], Max[int])
	uint8Kernels   = kernelsOf(Sum[uint8], Prod[uint8], Min[uint8], Max[uint8])
	uint16Kernels  = kernelsOf(Sum[uint16], Prod[uint16], Min[uint16], Max[uint16])
	uint32Kernels  = kernelsOf(Sum[uint32], Prod[uint32], Min[uint32], Max[uint32])
	uint64Kernels  = kernelsOf(Sum[uint64], Prod[uint64], Min[uint64], Max[uint64])
	uintKernels    = kernelsOf(Sum[uint], Prod[uint], Min[uint], Max[uint])
	float32Kernels = kernelsOf(Sum[float32], Prod[float32], Min[float32], Max[float32])
	float64Kernels = kernelsOf(Sum[float64], Prod[float64], Min[float64], Max[float64])
)

// kernelOf gives the loop of an operation; nil: it is not one of this package. It runs in each reduction:
// the switch compares type words, and find compares four addresses; neither is a map lookup, reflection or
// an allocation.
func kernelOf[T Number](op func(a, b T) T) coll.Op {
	switch any(op).(type) {
	case func(a, b int8) int8:
		return int8Kernels.find(codeOf(op))
	case func(a, b int16) int16:
		return int16Kernels.find(codeOf(op))
	case func(a, b int32) int32:
		return int32Kernels.find(codeOf(op))
	case func(a, b int64) int64:
		return int64Kernels.find(codeOf(op))
	case func(a, b int) int:
		return intKernels.find(codeOf(op))
	case func(a, b uint8) uint8:
		return uint8Kernels.find(codeOf(op))
	case func(a, b uint16) uint16:
		return uint16Kernels.find(codeOf(op))
	case func(a, b uint32) uint32:
		return uint32Kernels.find(codeOf(op))
	case func(a, b uint64) uint64:
		return uint64Kernels.find(codeOf(op))
	case func(a, b uint) uint:
		return uintKernels.find(codeOf(op))
	case func(a, b float32) float32:
		return float32Kernels.find(codeOf(op))
	case func(a, b float64) float64:
		return float64Kernels.find(codeOf(op))
	}
	return nil
}

func kernelsOf[T Ordered](sum, prod, least, most func(a, b T) T) *kernels {
	k := new(kernels)
	enter(k, vector.Sum, sum, func(a, b []T) {
		for i := range a {
			a[i] += b[i]
		}
	})
	enter(k, vector.Prod, prod, func(a, b []T) {
		for i := range a {
			a[i] *= b[i]
		}
	})
	enter(k, vector.Min, least, func(a, b []T) {
		for i := range a {
			a[i] = min(a[i], b[i])
		}
	})
	enter(k, vector.Max, most, func(a, b []T) {
		for i := range a {
			a[i] = max(a[i], b[i])
		}
	})
	return k
}

// enter enters one operation: the vector loop, if there is one, and a loop for the remaining elements.
func enter[T Ordered](k *kernels, kind vector.Op, op func(a, b T) T, rest func(a, b []T)) {
	loop := vector.Find(kind, reflect.TypeFor[T]().Kind())
	k[kind].code = codeOf(op)
	k[kind].fold = func(acc, in []byte) {
		if loop != nil && len(acc) >= vector.Group {
			done := loop(acc, in)
			acc, in = acc[done:], in[done:]
		}
		if len(acc) > 0 {
			a := numbers[T](acc)
			rest(a, numbers[T](in)[:len(a)])
		}
	}
}
