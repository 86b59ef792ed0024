package fault

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sleepInKernel bypasses the Go runtime. The runtime's timers wait for whole milliseconds when
// nothing else is to be done, and other ranks fall asleep within one. After a regular system call the
// runtime's monitor polls every 20 µs for a millisecond, which takes time from all processes that
// share the core.
func sleepInKernel(d time.Duration) {
	left := unix.NsecToTimespec(int64(d))
	for {
		at := uintptr(unsafe.Pointer(&left))
		if _, _, err := unix.RawSyscall(unix.SYS_NANOSLEEP, at, at, 0); err != unix.EINTR {
			return
		}
	}
}
