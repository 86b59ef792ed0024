package ccall

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Why unsafe: C's stack and its functions lie outside of Go's memory.

// Possible reports whether this machine is known here.
const Possible = true

const (
	// stackBytes is the size of a stack, guardBytes that of the memory below it that cannot be touched.
	stackBytes, guardBytes = 256 << 10, 64 << 10
)

// Stack is a stack for functions of C. One goroutine at a time may call functions on it.
type Stack struct {
	mem []byte
	top unsafe.Pointer
}

// NewStack maps a stack.
func NewStack() (*Stack, error) {
	mem, err := unix.Mmap(-1, 0, guardBytes+stackBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err == nil {
		if err = unix.Mprotect(mem[:guardBytes], unix.PROT_NONE); err != nil {
			_ = unix.Munmap(mem)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("ccall: no memory for a stack: %w", err)
	}
	return &Stack{mem: mem, top: unsafe.Add(unsafe.Pointer(unsafe.SliceData(mem)), len(mem))}, nil
}

// Call calls a function of C of one argument. Both are memory of C, or nil.
func (s *Stack) Call(fn, arg unsafe.Pointer) { call(fn, arg, s.top) }

// Close unmaps the stack.
func (s *Stack) Close() { _ = unix.Munmap(s.mem) }

// call calls fn with arg on the stack below top.
//
//go:noescape
func call(fn, arg, top unsafe.Pointer)
