package futex

import (
	"sync"

	"golang.org/x/sys/unix"
)

const (
	cmdGlobalExpedited         = 1 << 1
	cmdRegisterGlobalExpedited = 1 << 2
)

// Registered reports whether this process takes part in the sleeper's barrier:
// whether membarrier(REGISTER_GLOBAL_EXPEDITED) succeeded. The first call
// registers.
var Registered = sync.OnceValue(func() bool {
	_, _, errno := unix.Syscall(unix.SYS_MEMBARRIER, cmdRegisterGlobalExpedited, 0, 0)
	return errno == 0
})

// Barrier makes every running thread of every registered process execute a full memory barrier. It
// costs some microseconds, and the sleeping side calls it. A process whose Registered is true may
// call it.
func Barrier() {
	_, _, _ = unix.Syscall(unix.SYS_MEMBARRIER, cmdGlobalExpedited, 0, 0)
}
