package hook

import (
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// unhandled gives a signal its default action, which package os/signal cannot do
// for those that the Go runtime handles.
func unhandled(sig syscall.Signal) error {
	// struct sigaction of the kernel: handler (0: default), flags, restorer, mask.
	action := new([4]uint64)
	_, _, errno := unix.Syscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(action)), 0, 8, 0, 0)
	runtime.KeepAlive(action)
	if errno != 0 {
		return errno
	}
	return nil
}
