package warm

import (
	"sync/atomic"
	"unsafe"
)

var anything atomic.Pointer[[64]byte] // so that it is not on the stack

// heapAddress is where Go has allocated a moment ago.
func heapAddress() uintptr {
	p := new([64]byte)
	anything.Store(p)
	return uintptr(unsafe.Pointer(p))
}
