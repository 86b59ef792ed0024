package shm

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/internal/epoll"
)

// A watcher whose epoll fails logs it.
func TestWatchFails(t *testing.T) {
	first, err := epoll.New("by which the runtime has its own set")
	require.NoError(t, err)
	defer first.Close()
	known := epolls(t)
	var said []string
	w := &watcher{done: make(chan struct{}), warn: func(format string, args ...any) {
		said = append(said,
			fmt.Sprintf(format, args...))
	}}
	w.set, err = epoll.New("of a watcher")
	require.NoError(t, err)
	overwrite(t, known)
	w.run()
	<-w.done
	w.set.Close()
	require.Len(t, said, 1)
	require.Contains(t, said[0], "epoll_wait: invalid argument")
}

// overwrite replaces the descriptors of new epoll sets by another file, as a mistake elsewhere in
// the program would.
func overwrite(t *testing.T, known map[int]bool) {
	t.Helper()
	event, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	require.NoError(t, err)
	defer unix.Close(event)
	found := 0
	for fd := range epolls(t) {
		if !known[fd] {
			found++
			require.NoError(t, unix.Dup3(event, fd, unix.O_CLOEXEC))
		}
	}
	require.Equal(t, 1, found)
}

// epolls are the epoll sets of this process.
func epolls(t *testing.T) map[int]bool {
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	fds := make(map[int]bool)
	for _, e := range entries {
		to, _ := os.Readlink("/proc/self/fd/" + e.Name())
		if fd, err := strconv.Atoi(e.Name()); err == nil && to == "anon_inode:[eventpoll]" {
			fds[fd] = true
		}
	}
	return fds
}
