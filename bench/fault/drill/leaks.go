package drill

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// held lists the open descriptors of this process, after those that Go's runtime keeps exist.
func held() (map[string]int, error) {
	a, b, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	if err := errors.Join(a.Close(), b.Close()); err != nil {
		return nil, err
	}
	const dir = "/proc/self/fd"
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	open := map[string]int{}
	for _, e := range entries {
		if what, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil { // otherwise it was the directory's own
			open[what]++
		}
	}
	return open, nil
}

// leaks returns an error if a rank that has finalized has more descriptors than before, or still maps
// shared memory.
func leaks(before map[string]int) error {
	after, err := held()
	if err != nil {
		return err
	}
	for what, n := range after {
		if n > before[what] {
			return fmt.Errorf("%s is open %d times, %d before", what, n, before[what])
		}
	}
	f, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(f)) {
		if strings.Contains(line, "memfd:") || strings.Contains(line, "/dev/shm") {
			return fmt.Errorf("a mapping is left: %s", line)
		}
	}
	return nil
}
