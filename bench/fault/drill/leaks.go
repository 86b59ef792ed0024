package drill

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// held lists what this process has open. What Go's runtime keeps is open from then on.
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
		if what, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil { // else it was the directory's own
			open[what]++
		}
	}
	return open, nil
}

// leaks says what a rank that has finalized has open beyond what it had before, and
// what it still maps.
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
