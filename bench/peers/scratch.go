package peers

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Scratch makes a directory for files that are of use while this process lives; the caller removes
// it. Its name contains its owner, so that the directories of killed processes can be recognized:
// the first call removes them.
func Scratch(what string) (string, error) {
	sweepOnce()
	me, err := thisProcess()
	if err != nil {
		return "", fmt.Errorf("peers: %w", err)
	}
	dir, err := os.MkdirTemp(tempDir(), fmt.Sprintf("banyan-%s-%d-%d-%d-", what, me.space, me.pid, me.start))
	if err != nil {
		return "", fmt.Errorf("peers: %w", err)
	}
	return dir, nil
}

// owner is a process in the name of a directory.
type owner struct {
	space uint64 // inode of the pid namespace: elsewhere the pid is another's
	pid   int
	start uint64 // when it started, in ticks since boot: pids come back
}

var thisProcess = sync.OnceValues(func() (owner, error) {
	var st unix.Stat_t
	if err := unix.Stat("/proc/self/ns/pid", &st); err != nil {
		return owner{}, fmt.Errorf("stat /proc/self/ns/pid: %w", err)
	}
	start, err := startOf(os.Getpid())
	return owner{st.Ino, os.Getpid(), start}, err
})

// startOf reads when a process started: field 22 of its stat (proc(5)). The second field may hold
// spaces and parentheses.
func startOf(pid int) (uint64, error) {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	if len(fields) < 20 {
		return 0, fmt.Errorf("/proc/%d/stat: %q", pid, b)
	}
	return strconv.ParseUint(fields[19], 10, 64)
}

var sweepOnce = sync.OnceFunc(func() { sweep(tempDir()) })

var scratchName = regexp.MustCompile(`^banyan-[a-z]+-(\d+)-(\d+)-(\d+)-\d+$`)

// sweep removes the directories of this user's processes that have ended. A directory that cannot
// be removed stays: it does no harm.
func sweep(dir string) {
	me, err := thisProcess()
	if err != nil {
		return
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		m := scratchName.FindStringSubmatch(e.Name())
		if m == nil || m[1] != strconv.FormatUint(me.space, 10) || !isOurs(e) {
			continue
		}
		pid, err := strconv.Atoi(m[2])
		if err != nil {
			continue
		}
		start, err := startOf(pid)
		if gone := errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH); gone || err == nil &&
			strconv.FormatUint(start, 10) != m[3] {
			_ = os.RemoveAll(filepath.Join(dir, e.Name()))
		}
	}
}

// isOurs reports whether a directory belongs to this user.
func isOurs(e fs.DirEntry) bool {
	info, err := e.Info()
	if err != nil || !info.IsDir() {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Getuid()
}

// tempDir prefers memory: the control shares a file in the directory, and a file system on a disk
// would write it back while it is being measured.
func tempDir() string {
	if unix.Access("/dev/shm", unix.W_OK) == nil {
		return "/dev/shm"
	}
	return os.TempDir()
}
