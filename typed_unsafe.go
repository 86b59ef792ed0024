package banyan

import (
	"fmt"
	"unsafe"
)

// Why unsafe: a slice of numbers is sent from where it lies. The conversion is
// sound for the types of Number and for Located of them, which have no pointers.

// Number is what travels without copies: numbers of one machine's layout. All
// ranks of a job must have the same byte order.
type Number interface {
	~int8 | ~int16 | ~int32 | ~int64 | ~int | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uint |
		~float32 | ~float64 | ~complex64 | ~complex128
}

// Bytes is the memory of a slice of numbers, for every operation that takes
// bytes. It shares the slice's memory.
func Bytes[T Number](s []T) []byte {
	var zero T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(zero)))
}

// numbers is the way back. Precondition: b came from Bytes or is aligned for T.
func numbers[T Number](b []byte) []T {
	var zero T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(zero)))
}

// count turns a length in bytes into one in elements.
func count[T Number](bytes int) (int, error) {
	var zero T
	size := int(unsafe.Sizeof(zero))
	if bytes%size != 0 {
		return bytes / size, fmt.Errorf("%w: a message of %d bytes is no number of elements of %d", ErrArgument, bytes, size)
	}
	return bytes / size, nil
}

// size is the length of an element in bytes.
func size[T Number]() int {
	var zero T
	return int(unsafe.Sizeof(zero))
}

// codeOf is the address of the code of a function. A func value points to a word with that address.
func codeOf[T Number](op func(a, b T) T) uintptr {
	return **(**uintptr)(unsafe.Pointer(&op))
}

// locatedBytes is the memory of values with places. What may lie unused between a value and its place travels along.
func locatedBytes[T Ordered](s []Located[T]) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*locatedSize[T]())
}

// locateds is the way back. Precondition: b came from locatedBytes or is aligned for it.
func locateds[T Ordered](b []byte) []Located[T] {
	return unsafe.Slice((*Located[T])(unsafe.Pointer(unsafe.SliceData(b))), len(b)/locatedSize[T]())
}

func locatedSize[T Ordered]() int {
	var zero Located[T]
	return int(unsafe.Sizeof(zero))
}
