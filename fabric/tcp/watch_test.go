package tcp

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/internal/epoll"
)

// Where the kernel does not wake the process any more, by a mistake elsewhere in the program, it
// logs that, once, and does not sleep.
func TestWatchFails(t *testing.T) {
	for name, notice := range map[string]func(w *watcher){
		"when it is armed": func(w *watcher) {
			require.False(t, w.arm())
			require.False(t, w.arm())
			go w.run()
		},
		"when it waits": func(w *watcher) { w.run() },
	} {
		t.Run(name, func(t *testing.T) {
			var said []string
			rung := make(chan struct{}, 10)
			p, err := Open(Config{
				Self: 0, MaxProcs: 2, Secret: make([]byte, minSecret), Unix: true, Ring: func() { rung <- struct{}{} },
				Warn: func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) },
			})
			require.NoError(t, err)
			require.False(t, p.Ready())
			p.watch.close()
			known := epolls(t)
			p.watch.set, err = epoll.New("to be overwritten")
			require.NoError(t, err)
			p.watch.done = make(chan struct{})
			overwrite(t, known)
			notice(p.watch)
			require.True(t, p.Ready())
			<-rung
			require.NoError(t, p.Close())
			require.Len(t, said, 1)
			require.Contains(t, said[0], "polls and never sleeps")
			require.Empty(t, rung)
		})
	}
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
