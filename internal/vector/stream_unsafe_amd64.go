package vector

import "unsafe"

// Why unsafe: the loop takes addresses, of slices that are kept alive over the call.

// stream copies whole lines to a line, past the caches.
//
//go:noescape
func stream(to, from *byte, n int)

// lineBytes is the transfer unit of the memory system.
const lineBytes = 64

// Stream copies len(from) bytes to the beginning of to, past the caches: for memory that another core has
// written and that will be read elsewhere, or later. Precondition: len(to) >= len(from), and they do not
// overlap.
func Stream(to, from []byte) {
	head := int(-uintptr(unsafe.Pointer(unsafe.SliceData(to))) % lineBytes)
	if len(from) < head+lineBytes {
		copy(to, from)
		return
	}
	copy(to, from[:head])
	to, from = to[head:], from[head:]
	n := len(from) &^ (lineBytes - 1)
	stream(&to[0], &from[0], n)
	copy(to[n:], from[n:])
}
