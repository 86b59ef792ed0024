package ranks

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Settle sleeps in the kernel: the runtime's timers wait for whole milliseconds where nothing else is to be done, and in
// one the others fall asleep.
func Settle(d time.Duration) {
	left := unix.NsecToTimespec(int64(d))
	for unix.Nanosleep(&left, &left) == unix.EINTR {
	}
}

// Clock reads the clock that all processes of the machine share, in nanoseconds.
func Clock() (int64, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0, fmt.Errorf("read the clock: %w", err)
	}
	return ts.Nano(), nil
}
