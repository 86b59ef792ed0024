package tcp

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric/fabrictest"
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
			fabrictest.BreakEpoll(t, func() { p.watch.set, err = epoll.New("to be overwritten") })
			require.NoError(t, err)
			p.watch.done = make(chan struct{})
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
