package vector

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// Why unsafe: the loop takes addresses, of slices that are kept alive over the call.

// stream copies whole lines to a line, past the caches.
//
//go:noescape
func stream(to, from *byte, n int)

// take copies whole lines to a line.
//
//go:noescape
func take(to, from *byte, n int)

// lineBytes is the transfer unit of the memory system.
const lineBytes = 64

// Stream copies len(from) bytes to the beginning of to, past the caches: for memory that another core has
// written and that will be read elsewhere, or later. Precondition: len(to) >= len(from), and they do not
// overlap.
func Stream(to, from []byte) {
	if rest, of := upToLine(to, from); len(of) >= lineBytes {
		n := len(of) &^ (lineBytes - 1)
		stream(&rest[0], &of[0], n)
		copy(rest[n:], of[n:])
	}
}

// Take copies len(from) bytes to the beginning of to, for memory that another core has written, into memory that it has
// read: the loop asks for the lines of both ahead. Precondition: as Stream.
func Take(to, from []byte) {
	if !cpu.X86.HasAVX2 {
		copy(to, from)
		return
	}
	if rest, of := upToLine(to, from); len(of) >= lineBytes {
		n := len(of) &^ (lineBytes - 1)
		take(&rest[0], &of[0], n)
		copy(rest[n:], of[n:])
	}
}

// upToLine copies up to a line of to and gives the rest of both; all, if no line would be left.
func upToLine(to, from []byte) (rest, of []byte) {
	head := int(-uintptr(unsafe.Pointer(unsafe.SliceData(to))) % lineBytes)
	if len(from) < head+lineBytes {
		copy(to, from)
		return nil, nil
	}
	copy(to, from[:head])
	return to[head:], from[head:]
}
