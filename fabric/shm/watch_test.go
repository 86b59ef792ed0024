package shm

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric/fabrictest"
	"github.com/banyan-hpc/banyan/internal/epoll"
)

// A watcher whose epoll fails logs it.
func TestWatchFails(t *testing.T) {
	first, err := epoll.New("by which the runtime has its own set")
	require.NoError(t, err)
	defer first.Close()
	var said []string
	w := &watcher{done: make(chan struct{}), warn: func(format string, args ...any) {
		said = append(said, fmt.Sprintf(format, args...))
	}}
	fabrictest.BreakEpoll(t, func() { w.set, err = epoll.New("of a watcher") })
	require.NoError(t, err)
	w.run()
	<-w.done
	w.set.Close()
	require.Len(t, said, 1)
	require.Contains(t, said[0], "epoll_wait: invalid argument")
}
