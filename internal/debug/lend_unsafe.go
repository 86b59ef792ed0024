package debug

import (
	"slices"
	"unsafe"
)

// Why unsafe: two buffers of an operation may share memory, as where a rank's block lies in the place
// of the result. Their copies share it alike. Addresses are compared, and nothing is read through them.

// lend copies two buffers.
func lend(a, b []byte) (_, _ []byte) {
	if len(a) == 0 || len(b) == 0 {
		return slices.Clone(a), slices.Clone(b)
	}
	x, y := uintptr(unsafe.Pointer(unsafe.SliceData(a))), uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	low, high := min(x, y), max(x+uintptr(len(a)), y+uintptr(len(b)))
	if high-low >= uintptr(len(a)+len(b)) {
		return slices.Clone(a), slices.Clone(b)
	}
	both := make([]byte, high-low)
	p, q := both[x-low:][:len(a)], both[y-low:][:len(b)]
	copy(p, a)
	copy(q, b)
	return p, q
}

// shareBytes reports whether two slices have memory in common.
func shareBytes(a, b []byte) bool {
	x, y := uintptr(unsafe.Pointer(unsafe.SliceData(a))), uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	return x < y+uintptr(len(b)) && y < x+uintptr(len(a))
}
