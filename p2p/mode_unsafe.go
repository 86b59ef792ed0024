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
