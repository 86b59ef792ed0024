package rma

import (
	"cmp"
	"reflect"
	"unsafe"
)

// Why unsafe: numbers are updated where they lie in a window's memory. Memory is aligned to 8 bytes
// and offsets to the size of a number. Numbers of 16 bytes are aligned to 8, as the language asks for.

// Elem is the type of the numbers of an accumulate, as a reflect.Kind.
type Elem uint8

// Acc is how an accumulate combines numbers.
type Acc uint8

// The operations of accumulates.
const (
	Sum Acc = iota
	Prod
	Min
	Max
	And
	Or
	Xor
	Replace
	NoOp
	accs
)

var sizes = [reflect.Complex128 + 1]uint8{
	reflect.Int8: 1, reflect.Int16: 2, reflect.Int32: 4, reflect.Int64: 8,
	reflect.Uint8: 1, reflect.Uint16: 2, reflect.Uint32: 4, reflect.Uint64: 8,
	reflect.Float32: 4, reflect.Float64: 8, reflect.Complex64: 8, reflect.Complex128: 16,
}

// size is the length of a number in bytes; 0: there is no such type.
func (e Elem) size() int {
	if int(e) >= len(sizes) {
		return 0
	}
	return int(sizes[e])
}

// applies reports whether there is such an operation on a type.
func (a Acc) applies(e Elem) bool {
	k := reflect.Kind(e)
	switch a {
	case Sum, Prod, Replace, NoOp:
		return e.size() > 0
	case Min, Max:
		return e.size() > 0 && k != reflect.Complex64 && k != reflect.Complex128
	}
	return a < accs && e.size() > 0 && k <= reflect.Uint64
}

// beginOf is where memory begins.
func beginOf(mem []byte) *byte { return unsafe.SliceData(mem) }

// bytesAt is n bytes of memory that begins at p.
func bytesAt(p *byte, at uint64, n int) []byte {
	return unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(p), at)), n)
}

// aligned reports whether memory can be that of a window.
func aligned(b []byte) bool { return uintptr(unsafe.Pointer(unsafe.SliceData(b)))%8 == 0 }

// Memory gives n zeroed bytes that can be a window's, of a whole number of words.
func Memory(n int) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(make([]uint64, (n+7)/8)))), n)
}

func view[T any](b []byte) []T {
	var zero T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(zero)))
}

// apply combines data into memory. Preconditions: acc applies to elem, the lengths are equal, and mem
// is aligned.
func apply(acc Acc, elem Elem, mem, data []byte) {
	switch acc {
	case NoOp:
		return
	case Replace:
		copy(mem, data)
		return
	}
	own := Memory(len(data)) // frames are not aligned
	copy(own, data)
	fold(acc, elem, mem, own)
}

// fold is apply for aligned data and the operations that compute.
func fold(acc Acc, elem Elem, mem, own []byte) {
	switch reflect.Kind(elem) {
	case reflect.Int8:
		integers(acc, view[int8](mem), view[int8](own))
	case reflect.Int16:
		integers(acc, view[int16](mem), view[int16](own))
	case reflect.Int32:
		integers(acc, view[int32](mem), view[int32](own))
	case reflect.Int64:
		integers(acc, view[int64](mem), view[int64](own))
	case reflect.Uint8:
		integers(acc, mem, own)
	case reflect.Uint16:
		integers(acc, view[uint16](mem), view[uint16](own))
	case reflect.Uint32:
		integers(acc, view[uint32](mem), view[uint32](own))
	case reflect.Uint64:
		integers(acc, view[uint64](mem), view[uint64](own))
	case reflect.Float32:
		ordered(acc, view[float32](mem), view[float32](own))
	case reflect.Float64:
		ordered(acc, view[float64](mem), view[float64](own))
	case reflect.Complex64:
		numbers(acc, view[complex64](mem), view[complex64](own))
	case reflect.Complex128:
		numbers(acc, view[complex128](mem), view[complex128](own))
	}
}

func integers[T int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64](acc Acc, mem, data []T) {
	mem = mem[:len(data)]
	switch acc {
	case And:
		for i, v := range data {
			mem[i] &= v
		}
	case Or:
		for i, v := range data {
			mem[i] |= v
		}
	case Xor:
		for i, v := range data {
			mem[i] ^= v
		}
	default:
		ordered(acc, mem, data)
	}
}

func ordered[T interface {
	cmp.Ordered
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 | float32 | float64
}](acc Acc, mem, data []T) {
	mem = mem[:len(data)]
	switch acc {
	case Min:
		for i, v := range data {
			mem[i] = min(mem[i], v)
		}
	case Max:
		for i, v := range data {
			mem[i] = max(mem[i], v)
		}
	default:
		numbers(acc, mem, data)
	}
}

func numbers[T int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 | float32 | float64 |
	complex64 | complex128](acc Acc, mem, data []T) {
	mem = mem[:len(data)]
	switch acc {
	case Sum:
		for i, v := range data {
			mem[i] += v
		}
	case Prod:
		for i, v := range data {
			mem[i] *= v
		}
	}
}
