package intrusion

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sleep returns after d, or earlier.
//
// It bypasses the scheduler. Otherwise the runtime's monitor takes the processor away from the
// sleeping thread each time, and then checks for another one every 80 microseconds for 4
// milliseconds, that is, always: on a virtual machine that took a tenth of a core from the ranks,
// twice as much as the flood.
func sleep(d time.Duration) {
	t := unix.NsecToTimespec(d.Nanoseconds())
	// a signal ends it early: then nothing is due
	_, _, _ = unix.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&t)), 0, 0)
}
