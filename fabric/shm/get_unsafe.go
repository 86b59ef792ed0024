package shm

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/fabric"
)

// Why unsafe: process_vm_readv takes addresses, the local one of a Go slice
// that is kept alive over the call, the remote one as a number that the kernel
// checks.

// maxCopy is the kernel's limit for one call.
const maxCopy = 0x7ffff000

// readProcess copies len(local) bytes from addr in the process pid.
func readProcess(pid int, local []byte, addr uint64) error {
	for len(local) > 0 {
		n := min(len(local), maxCopy)
		lv := unix.Iovec{Base: unsafe.SliceData(local)}
		lv.SetLen(n)
		rv := unix.RemoteIovec{Base: uintptr(addr), Len: n}
		got, _, errno := unix.Syscall6(unix.SYS_PROCESS_VM_READV, uintptr(pid),
			uintptr(unsafe.Pointer(&lv)), 1, uintptr(unsafe.Pointer(&rv)), 1, 0)
		runtime.KeepAlive(local)
		switch {
		case errno == unix.EINTR:
			continue
		case errno != 0:
			return readError(errno, pid)
		case got == 0:
			return fmt.Errorf("shm: process_vm_readv(%d): nothing read", pid)
		}
		local, addr = local[got:], addr+uint64(got)
	}
	return nil
}

func readError(errno unix.Errno, pid int) error {
	switch {
	case errors.Is(errno, unix.ESRCH):
		return fabric.ErrPeerGone
	case errors.Is(errno, unix.EPERM):
		return fmt.Errorf("shm: process_vm_readv(%d): %w: the kernel forbids reading the peer (Yama's ptrace_scope, another user, or a container without CAP_SYS_PTRACE)", pid, errno)
	default:
		return fmt.Errorf("shm: process_vm_readv(%d): %w", pid, errno)
	}
}

// allowReading lets peers read this process where Yama would allow it to
// ancestors only.
func allowReading() {
	b, err := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope")
	if err == nil && strings.TrimSpace(string(b)) == "1" {
		const anyProcess = ^uintptr(0)
		_ = unix.Prctl(unix.PR_SET_PTRACER, anyProcess, 0, 0, 0)
	}
}

func addressOf(buf []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(buf)))) }
