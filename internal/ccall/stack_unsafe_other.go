//go:build !amd64

package ccall

import "unsafe"

// Possible reports whether this machine is known here.
const Possible = false

// Stack is a stack for functions of C. There is none here.
type Stack struct{}

// NewStack makes nothing.
func NewStack() (*Stack, error) { return &Stack{}, nil }

// Call must not be called.
func (s *Stack) Call(_, _ unsafe.Pointer) { panic("ccall: this machine is not known") }

// Close does nothing.
func (s *Stack) Close() {}
