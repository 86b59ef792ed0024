package fault

import (
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// quietRuntime is the time after which the monitor of the Go runtime rarely wakes: for a millisecond
// after a goroutine has been woken it runs every 20 µs, also on the core of a survivor. It is less than
// the time after which the monitor interrupts a goroutine.
const quietRuntime = 6 * time.Millisecond

// leaveCore is the time for which the harness sleeps after a kill, less than [reportAfter].
const leaveCore = 2 * time.Millisecond

// killQuietly kills a process and returns the time at which it does. The harness takes no time from
// survivors that have cores of their own: its thread does not run on these, and its runtime is idle.
func killQuietly(pid int) (killed int64, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := followTo(pid)
	if err != nil {
		return 0, err
	}
	sleepInKernel(quietRuntime)
	if killed, err = machineClock(); err == nil {
		err = unix.Kill(pid, unix.SIGKILL)
	}
	// The runtime would look for other work for a while, on the core of the victim or of a survivor.
	sleepInKernel(leaveCore)
	if aerr := unix.SchedSetaffinity(0, before); err == nil {
		err = aerr
	}
	return killed, err
}

// followTo moves the calling thread to the cores of a process, and returns those of before.
func followTo(pid int) (*unix.CPUSet, error) {
	var before, its unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return nil, fmt.Errorf("sched_getaffinity: %w", err)
	}
	if err := unix.SchedGetaffinity(pid, &its); err != nil {
		return nil, fmt.Errorf("sched_getaffinity of process %d: %w", pid, err)
	}
	if err := unix.SchedSetaffinity(0, &its); err != nil {
		return nil, fmt.Errorf("sched_setaffinity: %w", err)
	}
	return &before, nil
}
