package shm

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrNoSpace: a segment or a slot does not fit, because /dev/shm is full or a memory limit would be
// exceeded. The message names the limit and the remedy.
var ErrNoSpace = errors.New("shm: not enough memory")

// checkLimits checks whether this process may take n more bytes of shared memory, before fallocate:
// a memory cgroup answers excess with the OOM killer.
func checkLimits(n int64) error {
	return checkCgroup(os.DirFS("/"), n)
}

func checkCgroup(root fs.FS, n int64) error {
	list, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return nil // no cgroups here
	}
	for entry := range strings.Lines(string(list)) {
		parts := strings.SplitN(strings.TrimSpace(entry), ":", 3)
		if len(parts) != 3 {
			continue
		}
		switch {
		case parts[1] == "":
			err = checkHierarchy(root, "sys/fs/cgroup", parts[2], n, "memory.max", "memory.current", "inactive_file")
		case strings.Contains(parts[1], "memory"):
			err = checkHierarchy(root, "sys/fs/cgroup/memory", parts[2], n,
				"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkHierarchy walks from the process's group to the root: each level's limit counts.
func checkHierarchy(root fs.FS, mount, group string, n int64, limitFile, usedFile, cacheKey string) error {
	for dir := path.Clean("/" + group); ; dir = path.Dir(dir) {
		at := path.Join(mount, dir)
		limit, okLimit := readNumber(root, path.Join(at, limitFile))
		used, okUsed := readNumber(root, path.Join(at, usedFile))
		if okLimit && okUsed {
			used -= min(used, statKey(root, path.Join(at, "memory.stat"), cacheKey))
			if n > limit-used {
				return fmt.Errorf("%w: %d KiB more would exceed the memory limit of cgroup %s (%d KiB of %d KiB in use): "+
					"raise the limit or start fewer processes",
					ErrNoSpace, n>>10, dir, used>>10, limit>>10)
			}
		}
		if dir == "/" {
			return nil
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

// reserve allocates the range, so that touching it later cannot fail.
func reserve(fd int, offset, length int64) error {
	if err := checkLimits(length); err != nil {
		return err
	}
	for {
		err := unix.Fallocate(fd, 0, offset, length)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.ENOMEM):
			return fmt.Errorf("%w: reserving %d KiB: %w: enlarge the tmpfs (mount -o remount,size=… /dev/shm, or "+
				"--shm-size of the container) or use smaller slots",
				ErrNoSpace, length>>10, err)
		default:
			return fmt.Errorf("shm: reserving %d KiB: fallocate: %w", length>>10, err)
		}
	}
}
