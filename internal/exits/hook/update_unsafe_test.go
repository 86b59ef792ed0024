package hook

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/internal/exits"
)

// update tries to write to the log by bpf(BPF_MAP_UPDATE_ELEM).
func update(fd int) error {
	key, value := new(uint32), make([]byte, exits.LogSize)
	attr := struct {
		fd, _             uint32
		key, value, flags uint64
	}{fd: uint32(fd), key: uint64(uintptr(unsafe.Pointer(key))), value: uint64(uintptr(unsafe.Pointer(&value[0])))}
	_, _, errno := unix.Syscall(unix.SYS_BPF, 2, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	runtime.KeepAlive(key)
	runtime.KeepAlive(value)
	if errno != 0 {
		return errno
	}
	return nil
}
