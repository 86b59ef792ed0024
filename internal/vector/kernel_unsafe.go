package vector

import (
	"reflect"
	"unsafe"
)

// Why unsafe: a function is compared by the address of its code, and a loop folds numbers where they lie.
// The conversion is sound for the types of Number, which have no pointers.

// A call of a function takes longer than an element takes to come out of memory. So the operations of
// the interface are recognized by their code, and folded by loops that have them inside. A function value
// that is made in a generic function is another one: it is called for each element, as the functions of
// the application are.

// Number is the types that have kernels.
type Number interface {
	~int8 | ~int16 | ~int32 | ~int64 | ~int | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uint | ~float32 | ~float64
}

// Table has the kernels of each type.
type Table [reflect.Float64 + 1]*Kernels

// Kernels are the operations on one type that have loops. Of all of them two operands give the same in
// either order, but for the choice between two NaNs.
type Kernels [4]struct {
	code uintptr
	fold func(acc, in []byte)
}

// find gives the loop of an operation with that code, or nil.
func (k *Kernels) find(code uintptr) func(acc, in []byte) {
	for i := range k {
		if k[i].code == code {
			return k[i].fold
		}
	}
	return nil
}

// Find gives the loop of a function of two numbers; nil: there is none. Its arguments are of the same length
// and aligned for the type.
func (t *Table) Find(op any) func(acc, in []byte) {
	switch op := op.(type) {
	case func(a, b int8) int8:
		return t[reflect.Int8].find(codeOf(op))
	case func(a, b int16) int16:
		return t[reflect.Int16].find(codeOf(op))
	case func(a, b int32) int32:
		return t[reflect.Int32].find(codeOf(op))
	case func(a, b int64) int64:
		return t[reflect.Int64].find(codeOf(op))
	case func(a, b int) int:
		return t[reflect.Int].find(codeOf(op))
	case func(a, b uint8) uint8:
		return t[reflect.Uint8].find(codeOf(op))
	case func(a, b uint16) uint16:
		return t[reflect.Uint16].find(codeOf(op))
	case func(a, b uint32) uint32:
		return t[reflect.Uint32].find(codeOf(op))
	case func(a, b uint64) uint64:
		return t[reflect.Uint64].find(codeOf(op))
	case func(a, b uint) uint:
		return t[reflect.Uint].find(codeOf(op))
	case func(a, b float32) float32:
		return t[reflect.Float32].find(codeOf(op))
	case func(a, b float64) float64:
		return t[reflect.Float64].find(codeOf(op))
	}
	return nil
}

// KernelsOf makes the kernels of a type from its operations.
func KernelsOf[T Number](sum, prod, least, most func(a, b T) T) *Kernels {
	k := new(Kernels)
	enter(k, Sum, sum, func(a, b []T) {
		for i := range a {
			a[i] += b[i]
		}
	})
	enter(k, Prod, prod, func(a, b []T) {
		for i := range a {
			a[i] *= b[i]
		}
	})
	enter(k, Min, least, func(a, b []T) {
		for i := range a {
			a[i] = min(a[i], b[i])
		}
	})
	enter(k, Max, most, func(a, b []T) {
		for i := range a {
			a[i] = max(a[i], b[i])
		}
	})
	return k
}

// enter enters one operation: the vector loop, if there is one, and a loop for the remaining elements.
func enter[T Number](k *Kernels, kind Op, op func(a, b T) T, rest func(a, b []T)) {
	loop := Find(kind, reflect.TypeFor[T]().Kind())
	k[kind].code = codeOf(op)
	k[kind].fold = func(acc, in []byte) {
		if loop != nil && len(acc) >= Group {
			done := loop(acc, in)
			acc, in = acc[done:], in[done:]
		}
		if len(acc) > 0 {
			a := numbers[T](acc)
			rest(a, numbers[T](in)[:len(a)])
		}
	}
}

// numbers are those in some memory. Precondition: it is aligned for T.
func numbers[T Number](b []byte) []T {
	var zero T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(zero)))
}

// codeOf is the address of the code of a function. A func value points to a word with that address.
func codeOf[T Number](op func(a, b T) T) uintptr {
	return **(**uintptr)(unsafe.Pointer(&op))
}
