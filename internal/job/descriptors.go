package job

import (
	"fmt"
	"math/bits"
	"os"

	"golang.org/x/sys/unix"
)

// enoughFiles checks the limit of open files: each peer with a connection takes one. The library
// alone connects to 2⌈log₂ n⌉ - 1 of n ranks for barriers and for the detector. With a lower limit
// pairs would wait for half a minute for it to be raised, and then count as unreachable.
func enoughFiles(ranks int) error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return nil // then it is not known
	}
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil && len(open) == 0 {
		return nil
	}
	used := len(open) - 1
	need := used + min(ranks-1, 2*bits.Len(uint(ranks-1))-1)
	if limit.Cur >= uint64(need) {
		return nil
	}
	return fmt.Errorf("a rank of %d needs at least %d open files, one for each peer that it talks to "+
		"and %d for other things, and may have %d: raise the limit (ulimit -n)",
		ranks, need, used, limit.Cur)
}
