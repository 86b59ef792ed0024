package robust

import (
	"time"

	"golang.org/x/sys/unix"
)

// promptly has a thread of this process, 0 for the calling one, run soon after it is woken, also on a core where
// another one polls: it asks for short slices of time, which the scheduler gives
// sooner (Linux 6.12; before, nothing changes). A thread that does next to nothing takes
// nothing from others by that. The holder of the words needs it to die, a waiter to
// report the death.
func promptly(thread int) {
	const slice = 100 * time.Microsecond // the shortest there is
	a, err := unix.SchedGetAttr(thread, 0)
	if err != nil || a.Policy != unix.SCHED_NORMAL && a.Policy != unix.SCHED_BATCH {
		return
	}
	a.Policy, a.Runtime = unix.SCHED_NORMAL, uint64(slice)
	_ = unix.SchedSetAttr(thread, a, 0)
}

// politely has a thread of this process wait for its turn when it is woken, until promptly: it does not interrupt
// a thread that polls.
func politely(thread int) {
	a, err := unix.SchedGetAttr(thread, 0)
	if err != nil || a.Policy != unix.SCHED_NORMAL {
		return
	}
	a.Policy = unix.SCHED_BATCH
	_ = unix.SchedSetAttr(thread, a, 0)
}
