package fabrictest

import (
	"os"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// BreakEpoll replaces the descriptor of the one epoll set that open makes by another file, as a
// mistake elsewhere in the program would.
func BreakEpoll(t *testing.T, open func()) {
	t.Helper()
	before := epollSets()
	open()
	other, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(other)
	replaced := 0
	for fd := range epollSets() {
		if before[fd] {
			continue
		}
		replaced++
		if err := unix.Dup3(other, fd, unix.O_CLOEXEC); err != nil {
			t.Fatal(err)
		}
	}
	if replaced != 1 {
		t.Fatalf("%d epoll sets were made", replaced)
	}
}

// epollSets are the descriptors of the epoll sets of this process.
func epollSets() map[int]bool {
	const dir = "/proc/self/fd/"
	entries, _ := os.ReadDir(dir)
	fds := make(map[int]bool)
	for _, e := range entries {
		to, _ := os.Readlink(dir + e.Name())
		if fd, err := strconv.Atoi(e.Name()); err == nil && to == "anon_inode:[eventpoll]" {
			fds[fd] = true
		}
	}
	return fds
}
