package fault

import (
	"fmt"
	"math"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// machineClock reads CLOCK_MONOTONIC, which all processes of the machine share, namespaces included,
// in nanoseconds.
func machineClock() (int64, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0, fmt.Errorf("read the clock: %w", err)
	}
	return ts.Nano(), nil
}

// fastClock reads the same clock without a system call, to some ten nanoseconds. The first call is
// slow.
func fastClock() (int64, error) {
	e, err := epoch()
	return e.machine + int64(time.Since(e.runtime)), err
}

// instant is a moment on the clock of the Go runtime and on that of the machine.
type instant struct {
	runtime time.Time
	machine int64
}

// epoch relates the two clocks by the reading of the machine's that took the shortest time of many.
var epoch = sync.OnceValues(func() (best instant, _ error) {
	shortest := time.Duration(math.MaxInt64)
	for range 1000 {
		start := time.Now()
		at, err := machineClock()
		if err != nil {
			return best, err
		}
		if took := time.Since(start); took < shortest {
			shortest, best = took, instant{start, at - int64(took)/2}
		}
	}
	return best, nil
})
