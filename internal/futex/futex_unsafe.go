package futex

import (
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	opWait = 0
	opWake = 1
)

// wait sleeps while *word == val, at most d; d < 0 waits without limit. It
// returns early on a wake, a signal, or when the value differs already.
//
// It is a Syscall, not a RawSyscall: the collector must be able to go on while
// this thread sleeps.
func wait(word *atomic.Uint32, val uint32, d time.Duration) {
	var ts *unix.Timespec
	if d >= 0 {
		t := unix.NsecToTimespec(int64(d))
		ts = &t
	}
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), opWait, uintptr(val),
		uintptr(unsafe.Pointer(ts)), 0, 0)
}

// nap is wait as a RawSyscall, d >= 0: the runtime does not learn that the thread sleeps.
func nap(word *atomic.Uint32, val uint32, d time.Duration) {
	ts := unix.NsecToTimespec(int64(d))
	_, _, _ = unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), opWait, uintptr(val),
		uintptr(unsafe.Pointer(&ts)), 0, 0)
}

// Probe returns the reason for which this process cannot wait and wake at a shared word.
func Probe() error {
	var word atomic.Uint32
	at := uintptr(unsafe.Pointer(&word))
	if _, _, errno := unix.Syscall6(unix.SYS_FUTEX, at, opWait, 1, 0, 0, 0); errno != unix.EAGAIN { // it has another value
		return fmt.Errorf("futex (FUTEX_WAIT): %w", errno)
	}
	if _, _, errno := unix.RawSyscall6(unix.SYS_FUTEX, at, opWake, 1, 0, 0, 0); errno != 0 {
		return fmt.Errorf("futex (FUTEX_WAKE): %w", errno)
	}
	return nil
}

// wake wakes every sleeper on word.
func wake(word *atomic.Uint32) {
	_, _, _ = unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), opWake, 1<<30, 0, 0, 0)
}

// wakeAndYield is wake as a Syscall: while it lasts the runtime, or the thread that is woken on
// this core, may take the caller's processor.
func wakeAndYield(word *atomic.Uint32) {
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), opWake, 1<<30, 0, 0, 0)
}
