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

// maxCopy bounds one call to about 100 µs. The call holds on to its share of the Go
// scheduler, because letting go of it for each call costs a tenth of the
// bandwidth (the runtime's monitor takes it away after 20 µs and starts
// threads); so a call must be short enough for a collector that waits for it.
const maxCopy = 1 << 20

// reader copies from one other process.
type reader struct {
	pid int
	// probe is where token lies in that process: read with every copy, because
	// the pid may have been given to another process meanwhile.
	probe uint64
	token [tokenBytes]byte
}

// read copies len(local) bytes from addr. fabric.ErrPeerGone: the process has
// ended, or is another by now.
func (r *reader) read(local []byte, addr uint64) error {
	for {
		n := min(len(local), maxCopy)
		got, errno := r.copy(local[:n], addr)
		switch {
		case errno == unix.EINTR:
		case errno != 0:
			return readError(errno, r.pid)
		case got == 0 && n > 0:
			return fmt.Errorf("shm: process_vm_readv(%d): nothing read", r.pid)
		default:
			local, addr = local[got:], addr+uint64(got)
			if len(local) == 0 {
				return nil
			}
		}
	}
}

// copy is one call; it gives the bytes of local that were read.
func (r *reader) copy(local []byte, addr uint64) (int, unix.Errno) {
	var token [tokenBytes]byte
	lv := [2]unix.Iovec{{Base: &token[0], Len: tokenBytes}, {Base: unsafe.SliceData(local)}}
	lv[1].SetLen(len(local))
	rv := [2]unix.RemoteIovec{{Base: uintptr(r.probe), Len: tokenBytes}, {Base: uintptr(addr), Len: len(local)}}
	got, _, errno := unix.RawSyscall6(unix.SYS_PROCESS_VM_READV, uintptr(r.pid),
		uintptr(unsafe.Pointer(&lv)), uintptr(len(lv)), uintptr(unsafe.Pointer(&rv)), uintptr(len(rv)), 0)
	runtime.KeepAlive(local)
	switch {
	case errno != 0:
		return 0, errno
	case got < tokenBytes || token != r.token:
		return 0, unix.ESRCH
	}
	return int(got) - tokenBytes, 0
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
