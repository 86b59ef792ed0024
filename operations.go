package banyan

import (
	"reflect"
	"slices"

	"github.com/banyan-hpc/banyan/coll"
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

// elementwise makes of an operation on numbers one on their memory; nil stays none, and goes the way of those who have one.
func elementwise[T Number](op func(a, b T) T, order []Order) coll.Fold {
	f := coll.Fold{Unit: size[T](), AnyOrder: anyOrder(order)}
	if op == nil {
		return f
	}
	f.Op = kernels[reflect.ValueOf(op).Pointer()]
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
func AllreduceLocated[T Ordered](c *Comm, data []Located[T], op func(a, b Located[T]) Located[T], order ...Order) error {
	return c.allreduce(locatedBytes(data), eachLocated(op, order))
}

// ReduceLocated is [Reduce] of values with places.
func ReduceLocated[T Ordered](c *Comm, data []Located[T], op func(a, b Located[T]) Located[T], root int, order ...Order) error {
	return c.reduce(locatedBytes(data), eachLocated(op, order), root)
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
