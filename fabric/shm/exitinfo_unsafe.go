package shm

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Why unsafe: the system calls below take the address of a struct on the stack, or none.

// pidfdInfo is the second version of the kernel's struct pidfd_info.
type pidfdInfo struct {
	mask     uint64
	_        [52]byte // control group, ids, credentials
	exitCode int32
	coreMask uint32 // mode of a core dump, past or future; 0: the first thread has no memory
	_        uint32
}

const (
	infoCoredump = 1 << 4 // PIDFD_INFO_COREDUMP, Linux 6.16
	coredumped   = 1 << 0 // PIDFD_COREDUMPED, of coreMask
)

// getInfo is PIDFD_GET_INFO, _IOWR(0xff, 11, struct pidfd_info).
const getInfo = 3<<30 | unsafe.Sizeof(pidfdInfo{})<<16 | 0xff<<8 | 11

// memoryInfo asks a pidfd whether the process's first thread still uses the process's memory; not
// ok: the kernel is too old for the question or has dumped core. It costs a tenth of a read from
// /proc.
func memoryInfo(pidfd int) (has, ok bool) {
	info := pidfdInfo{mask: infoCoredump}
	_, _, errno := unix.RawSyscall(unix.SYS_IOCTL, uintptr(pidfd), getInfo, uintptr(unsafe.Pointer(&info)))
	return info.coreMask != 0, errno == 0 && info.mask&infoCoredump != 0 && info.coreMask&coredumped == 0
}

// exitInfo asks a pidfd for the exit status of a reaped process.
func exitInfo(pidfd int) (unix.WaitStatus, bool) {
	info := pidfdInfo{mask: unix.PIDFD_INFO_EXIT}
	_, _, errno := unix.RawSyscall(unix.SYS_IOCTL, uintptr(pidfd), getInfo, uintptr(unsafe.Pointer(&info)))
	return unix.WaitStatus(info.exitCode), errno == 0 && info.mask&unix.PIDFD_INFO_EXIT != 0
}

// unreaped asks the kernel whether the pid still names the process, ended or not.
func (r *reader) unreaped() bool {
	_, _, errno := unix.RawSyscall6(unix.SYS_PIDFD_SEND_SIGNAL, uintptr(r.process()), 0, 0, 0, 0, 0)
	return errno == 0
}
