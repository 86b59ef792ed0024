package tcp

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// disconnect resets a TCP connection, as a device between its ends might: unread data are lost.
func disconnect(fd int) {
	nowhere := unix.RawSockaddr{Family: unix.AF_UNSPEC}
	_, _, _ = unix.Syscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&nowhere)), unsafe.Sizeof(nowhere))
}
