package shm

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Why unsafe: the two system calls below take addresses of a struct on the stack,
// or none.

// pidfdInfo is the first version of the kernel's struct pidfd_info.
type pidfdInfo struct {
	mask     uint64
	_        [52]byte // control group, ids, credentials
	exitCode int32
}

// getInfo is PIDFD_GET_INFO, _IOWR(0xff, 11, struct pidfd_info).
const getInfo = 3<<30 | unsafe.Sizeof(pidfdInfo{})<<16 | 0xff<<8 | 11

// exitInfo asks a pidfd for the exit status of a process that has been reaped.
func exitInfo(pidfd int) (unix.WaitStatus, bool) {
	info := pidfdInfo{mask: unix.PIDFD_INFO_EXIT}
	_, _, errno := unix.RawSyscall(unix.SYS_IOCTL, uintptr(pidfd), getInfo, uintptr(unsafe.Pointer(&info)))
	return unix.WaitStatus(info.exitCode), errno == 0 && info.mask&unix.PIDFD_INFO_EXIT != 0
}

// unreaped asks the kernel whether the pid still means the process, ended or not.
func (r *reader) unreaped() bool {
	_, _, errno := unix.RawSyscall6(unix.SYS_PIDFD_SEND_SIGNAL, uintptr(r.pidfd), 0, 0, 0, 0, 0)
	return errno == 0
}
