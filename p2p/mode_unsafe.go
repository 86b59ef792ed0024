package p2p

import "unsafe"

// Aware makes operations check for failures. The choice between Aware and Unaware is made at
// compile time: their sizes differ, and a test of the size is a constant to the compiler, whereas a
// method of a type parameter would be an indirect call.
type Aware [1]byte

// Unaware leaves the checks out.
type Unaware [0]byte

// Mode is Aware or Unaware.
type Mode interface{ Aware | Unaware }

func checked[M Mode]() bool {
	var m M
	return unsafe.Sizeof(m) != 0
}

// shareBytes reports whether two slices have memory in common.
func shareBytes(a, b []byte) bool {
	x, y := uintptr(unsafe.Pointer(unsafe.SliceData(a))), uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	return x < y+uintptr(len(b)) && y < x+uintptr(len(a))
}
