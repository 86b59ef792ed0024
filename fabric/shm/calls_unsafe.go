package shm

import (
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Why unsafe: system calls take the addresses of slices, which are kept alive over the calls.

// A first contact makes system calls of a microsecond or two. They are made without notice to Go's
// scheduler: after a call with notice the monitor of the runtime looks around every 20 µs for a
// millisecond, in each process, and takes the processor away from a call during which the kernel gives
// the core to another process.

func result(errno unix.Errno) error {
	if errno != 0 {
		return errno
	}
	return nil
}

// pidfdOpen opens a pidfd of a process.
func pidfdOpen(pid int) (int, error) {
	fd, _, errno := unix.RawSyscall(unix.SYS_PIDFD_OPEN, uintptr(pid), 0, 0)
	return int(fd), result(errno)
}

// populate maps a part of a mapping for writing, with memory.
func populate(b []byte) error {
	_, _, errno := unix.RawSyscall(unix.SYS_MADVISE, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)),
		unix.MADV_POPULATE_WRITE)
	return result(errno)
}

var errShort = errors.New("shm: the file is too short")

// pread fills b from a file in memory.
func pread(fd int, b []byte, at int64) error {
	n, _, errno := unix.RawSyscall6(unix.SYS_PREAD64, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))),
		uintptr(len(b)), uintptr(at), 0, 0)
	if errno == 0 && int(n) < len(b) {
		return errShort
	}
	return result(errno)
}
