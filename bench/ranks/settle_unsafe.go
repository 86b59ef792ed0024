package ranks

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Settle sleeps in the kernel, and the runtime is not told. Its timers wait for whole milliseconds where nothing else is to be done, and in
// one the others fall asleep; and after a system call that it knows of its monitor looks round every 20 µs for a millisecond, which takes turns from
// all who share the core.
func Settle(d time.Duration) {
	left := unix.NsecToTimespec(int64(d))
	for {
		at := uintptr(unsafe.Pointer(&left))
		if _, _, err := unix.RawSyscall(unix.SYS_NANOSLEEP, at, at, 0); err != unix.EINTR {
			return
		}
	}
}
