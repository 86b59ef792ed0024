package banyan

import (
	"reflect"

	"github.com/banyan-hpc/banyan/internal/vector"
)

// An operation is a function of two numbers, and a call of it takes longer than an element takes to come out of
// memory. The operations of this package are recognized by where their code lies, and folded by loops that
// have them inside. A function value that is made in a generic function is another one: it is called
// for each element, as the application's functions are.

// kernels are the loops of the operations that are recognized, by their code. Of all of them two operands give the same in either order, but
// for which of two that are not numbers is left.
var kernels = func() map[uintptr]func(acc, in []byte) {
	k := make(map[uintptr]func(acc, in []byte))
	know(k, Sum[int8], Prod[int8], Min[int8], Max[int8])
	know(k, Sum[int16], Prod[int16], Min[int16], Max[int16])
	know(k, Sum[int32], Prod[int32], Min[int32], Max[int32])
	know(k, Sum[int64], Prod[int64], Min[int64], Max[int64])
	know(k, Sum[int], Prod[int], Min[int], Max[int])
	know(k, Sum[uint8], Prod[uint8], Min[uint8], Max[uint8])
	know(k, Sum[uint16], Prod[uint16], Min[uint16], Max[uint16])
	know(k, Sum[uint32], Prod[uint32], Min[uint32], Max[uint32])
	know(k, Sum[uint64], Prod[uint64], Min[uint64], Max[uint64])
	know(k, Sum[uint], Prod[uint], Min[uint], Max[uint])
	know(k, Sum[float32], Prod[float32], Min[float32], Max[float32])
	know(k, Sum[float64], Prod[float64], Min[float64], Max[float64])
	return k
}()

// know enters the operations on one type. They are made where nothing is generic.
func know[T Ordered](k map[uintptr]func(acc, in []byte), sum, prod, least, most func(a, b T) T) {
	enter(k, sum, vector.Sum, func(a, b []T) {
		for i := range a {
			a[i] += b[i]
		}
	})
	enter(k, prod, vector.Prod, func(a, b []T) {
		for i := range a {
			a[i] *= b[i]
		}
	})
	enter(k, least, vector.Min, func(a, b []T) {
		for i := range a {
			a[i] = min(a[i], b[i])
		}
	})
	enter(k, most, vector.Max, func(a, b []T) {
		for i := range a {
			a[i] = max(a[i], b[i])
		}
	})
}

// enter enters one operation: what the processor folds many at a time, if there is such, and the rest one by one.
func enter[T Ordered](k map[uintptr]func(acc, in []byte), op func(a, b T) T, kind vector.Op, rest func(a, b []T)) {
	loop := vector.Find(kind, reflect.TypeFor[T]().Kind())
	k[reflect.ValueOf(op).Pointer()] = func(acc, in []byte) {
		if loop != nil && len(acc) >= vector.Group {
			done := loop(acc, in)
			acc, in = acc[done:], in[done:]
		}
		if len(acc) > 0 {
			rest(pair[T](acc, in))
		}
	}
}

// pair gives the elements of both, as many as of the first.
func pair[T Number](acc, in []byte) (a, b []T) {
	a = numbers[T](acc)
	return a, numbers[T](in)[:len(a)]
}
