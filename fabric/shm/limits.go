package shm

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// ErrNoSpace: a segment or a slot does not fit, because /dev/shm is full or a memory limit would be
// exceeded. The message names the limit and the remedy.
var ErrNoSpace = errors.New("shm: not enough memory")

// checkLimits checks whether this process may take n more bytes of shared memory, before it does: a
// memory cgroup answers excess with the OOM killer. It returns how much it may take.
func checkLimits(n int64) (left int64, err error) {
	return checkCgroup(os.DirFS("/"), n)
}

func checkCgroup(root fs.FS, n int64) (left int64, err error) {
	left = math.MaxInt64
	list, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return left, nil // no cgroups here
	}
	for entry := range strings.Lines(string(list)) {
		parts := strings.SplitN(strings.TrimSpace(entry), ":", 3)
		if len(parts) != 3 {
			continue
		}
		here := left
		switch {
		case parts[1] == "":
			here, err = checkHierarchy(root, "sys/fs/cgroup", parts[2], n, "memory.max", "memory.current", "inactive_file")
		case strings.Contains(parts[1], "memory"):
			here, err = checkHierarchy(root, "sys/fs/cgroup/memory", parts[2], n,
				"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
		}
		if err != nil {
			return 0, err
		}
		left = min(left, here)
	}
	return left, nil
}

// checkHierarchy walks from the process's group to the root: each level's limit counts.
func checkHierarchy(root fs.FS, mount, group string, n int64, limitFile, usedFile, cacheKey string) (int64, error) {
	left := int64(math.MaxInt64)
	for dir := path.Clean("/" + group); ; dir = path.Dir(dir) {
		at := path.Join(mount, dir)
		limit, okLimit := readNumber(root, path.Join(at, limitFile))
		used, okUsed := int64(0), false
		if okLimit {
			used, okUsed = readNumber(root, path.Join(at, usedFile))
		}
		if okUsed {
			if n > limit-used { // the kernel drops cached pages before it kills
				used -= min(used, statKey(root, path.Join(at, "memory.stat"), cacheKey))
			}
			if n > limit-used {
				return 0, fmt.Errorf("%w: %d KiB more would exceed the memory limit of cgroup %s (%d KiB of %d KiB in use): "+
					"raise the limit or start fewer processes",
					ErrNoSpace, n>>10, dir, used>>10, limit>>10)
			}
			left = min(left, limit-used)
		}
		if dir == "/" {
			return left, nil
		}
	}
}

func readNumber(root fs.FS, name string) (int64, bool) {
	b, err := fs.ReadFile(root, name)
	if err != nil {
		return 0, false
	}
	v, err := strconv.ParseUint(string(bytes.TrimSpace(b)), 10, 63)
	return int64(v), err == nil // "max" is no number: no limit
}

func statKey(root fs.FS, name, key string) int64 {
	b, _ := fs.ReadFile(root, name)
	for entry := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(entry, key+" "); ok {
			n, _ := strconv.ParseUint(strings.TrimSpace(v), 10, 63)
			return int64(n)
		}
	}
	return 0
}

// checkMachine checks whether the machine has n bytes of memory to spare. Where it has not, the OOM killer
// would end a process.
func checkMachine(root fs.FS, n int64) error {
	if spare := available(root); n > spare {
		return fmt.Errorf("%w: %d KiB more than the %d KiB that the machine has available: use a smaller window, "+
			"allocate less, or start fewer processes", ErrNoSpace, n>>10, spare>>10)
	}
	return nil
}

// available is the number of bytes that the machine reports as available.
func available(root fs.FS) int64 {
	list, err := fs.ReadFile(root, "proc/meminfo")
	if err != nil {
		return math.MaxInt64 // nothing to compare with
	}
	for line := range bytes.Lines(list) {
		rest, found := bytes.CutPrefix(line, []byte("MemAvailable:"))
		if !found {
			continue
		}
		spare, err := strconv.ParseInt(string(bytes.TrimSuffix(bytes.TrimSpace(rest), []byte(" kB"))), 10, 64)
		if err == nil && spare >= 0 && spare < math.MaxInt64>>10 {
			return spare << 10
		}
	}
	return math.MaxInt64
}

// Spare is how many bytes of memory the machine and the control groups of this process have left.
func Spare() int64 {
	left := int64(math.MaxInt64)
	if n, err := checkLimits(0); err == nil {
		left = n
	}
	return min(left, available(os.DirFS("/")))
}

// reserve allocates the range, so that touching it later cannot fail.
func reserve(fd int, offset, length int64) error {
	if err := limits.take(length); err != nil {
		return err
	}
	return allocate(fd, offset, length)
}

// limits is the rest of the memory that the last check has allowed. Reading the limits costs a
// hundred times as much as a page.
var limits allowance

// allowance is memory that a check of the limits has allowed and that is not in use yet. Any
// goroutine may use it.
type allowance struct {
	mu   sync.Mutex
	left int64
}

// A check allows more than requested: this fraction of the free memory, at most mostAhead. A job may
// exceed its limit by as much for each process.
const (
	aheadPart = 1024
	mostAhead = 16 << 20
)

// take takes n bytes, after a check of the limits if too few are left.
func (a *allowance) take(n int64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n > a.left {
		a.left = 0
		left, err := checkLimits(n)
		if err != nil {
			return err
		}
		a.left = n + min((left-n)/aheadPart, mostAhead)
	}
	a.left -= n
	return nil
}

func allocate(fd int, offset, length int64) error {
	for {
		err := unix.Fallocate(fd, 0, offset, length)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.ENOMEM):
			return noSpace(length, err)
		default:
			return fmt.Errorf("shm: reserving %d KiB: fallocate: %w", length>>10, err)
		}
	}
}

// noSpace is the error of a tmpfs or a machine without memory for n more bytes.
func noSpace(n int64, err error) error {
	return fmt.Errorf("%w: reserving %d KiB: %w: enlarge the tmpfs (mount -o remount,size=… /dev/shm, or "+
		"--shm-size of the container) or use smaller rings",
		ErrNoSpace, n>>10, err)
}
