package shm

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/fabric"
)

// Why unsafe: process_vm_readv and process_vm_writev take addresses, the local one of a Go slice that is kept alive over
// the call, the remote one as a number that the kernel checks.

// maxCopy bounds one call to about 200 µs between near cores. The call keeps its processor of the
// Go scheduler, because releasing it for each call costs a tenth of the bandwidth (the runtime's
// monitor takes it away after 20 µs and starts threads). So a call must be short enough for a
// garbage collector that waits for it, and long enough: each costs the kernel some 5 µs besides the
// copy.
const maxCopy = 2 << 20

// reader copies from one other process, and to it.
type reader struct {
	pid    int
	handle handle
	// sure is the last time when the process was known to have its pid: nanoseconds since
	// clockOrigin. Any goroutine that reads accesses it.
	sure atomic.Int64
}

// A pid can name another process after as many forks as there are pids: at least 32767, which no
// machine does in pidTrust. Asking the kernel for each copy would cost a twentieth of the time of
// 64 KiB, and reading a token of the peer's with each copy as much again.
const pidTrust = int64(time.Millisecond)

var clockOrigin = time.Now()

// read copies len(local) bytes from addr. fabric.ErrPeerGone: the process has ended.
func (r *reader) read(local []byte, addr uint64) error {
	for len(local) > 0 {
		n := min(len(local), maxCopy)
		got, errno := r.copy(unix.SYS_PROCESS_VM_READV, local[:n], addr)
		switch {
		case errno == unix.EINTR:
			continue
		case !r.same():
			return fabric.ErrPeerGone
		case errno != 0:
			return readError(errno, r.pid)
		case got == 0:
			return fmt.Errorf("shm: process_vm_readv(%d): nothing read", r.pid)
		}
		local, addr = local[got:], addr+uint64(got)
	}
	return nil
}

// write copies local to addr. Nothing can be checked afterwards, so it asks directly before each call whether the process
// has its pid.
func (r *reader) write(local []byte, addr uint64) error {
	for len(local) > 0 {
		if !r.handle.held() && !r.unreaped() {
			return fabric.ErrPeerGone
		}
		got, errno := r.copy(unix.SYS_PROCESS_VM_WRITEV, local[:min(len(local), maxCopy)], addr)
		switch {
		case errno == unix.EINTR:
			continue
		case errno != 0 || got == 0:
			return fmt.Errorf("shm: process_vm_writev(%d): %d bytes: %w", r.pid, got, errno)
		}
		local, addr = local[got:], addr+uint64(got)
	}
	return nil
}

// known notes that the process has its pid.
func (r *reader) known() { r.sure.Store(int64(time.Since(clockOrigin))) }

// copy is one call; it returns the number of bytes copied.
func (r *reader) copy(call uintptr, local []byte, addr uint64) (int, unix.Errno) {
	lv := unix.Iovec{Base: unsafe.SliceData(local)}
	lv.SetLen(len(local))
	rv := unix.RemoteIovec{Base: uintptr(addr), Len: len(local)}
	got, _, errno := unix.RawSyscall6(call, uintptr(r.pid), uintptr(unsafe.Pointer(&lv)), 1, uintptr(unsafe.Pointer(&rv)), 1, 0)
	runtime.KeepAlive(local)
	if errno != 0 {
		return 0, errno
	}
	return int(got), 0
}

// same reports whether the pid still names the process: after a copy, this proves that the bytes
// were that process's. A word that it holds shows that without a question, and without a pidfd.
func (r *reader) same() bool {
	now := int64(time.Since(clockOrigin))
	if since := r.sure.Load(); since != 0 && now-since < pidTrust {
		return true
	}
	if !r.handle.held() && !r.unreaped() {
		return false
	}
	r.sure.Store(now) // from before the question
	return true
}

func readError(errno unix.Errno, pid int) error {
	switch {
	case errors.Is(errno, unix.ESRCH):
		return fabric.ErrPeerGone
	case errors.Is(errno, unix.EPERM):
		return fmt.Errorf("shm: process_vm_readv(%d): %w: the kernel forbids reading the peer (Yama's ptrace_scope, "+
			"another user, or a container without CAP_SYS_PTRACE)", pid, errno)
	default:
		return fmt.Errorf("shm: process_vm_readv(%d): %w", pid, errno)
	}
}

// allowReading lets peers read this process where Yama allows it to ancestors only.
func allowReading() {
	b, err := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope")
	if err == nil && strings.TrimSpace(string(b)) == "1" {
		const anyProcess = ^uintptr(0)
		_ = unix.Prctl(unix.PR_SET_PTRACER, anyProcess, 0, 0, 0)
	}
}

func addressOf(buf []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(buf)))) }

// mapAgain maps a part of a shared mapping once more, and gives a function that unmaps it.
func mapAgain(all []byte, from, n int) (mem []byte, end func() error, err error) {
	page := os.Getpagesize()
	before := from % page
	length := uintptr(before + n)
	at, _, errno := unix.Syscall6(unix.SYS_MREMAP, uintptr(unsafe.Pointer(&all[from-before])), 0, length, unix.MREMAP_MAYMOVE, 0, 0)
	if errno != 0 {
		return nil, nil, fmt.Errorf("shm: mapping %d KiB once more: mremap: %w%s", n>>10, errno, remedy(errno))
	}
	// The address is the kernel's, not of Go's memory.
	mem = unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(nil), at)), length)[before:]
	return mem, func() error {
		if _, _, errno := unix.Syscall(unix.SYS_MUNMAP, at, length, 0); errno != 0 {
			return fmt.Errorf("shm: ending a view: munmap: %w", errno)
		}
		return nil
	}, nil
}
