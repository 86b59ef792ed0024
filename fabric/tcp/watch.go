package tcp

import (
	"fmt"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/internal/epoll"
	"github.com/banyan-hpc/banyan/internal/warm"
)

// watcher is the goroutine that rings the bell while the process sleeps.
type watcher struct {
	set     *epoll.Set
	connSet int
	ring    func()
	warn    func(format string, args ...any)
	// failed: the bell is not rung any more. Set at the failure, read by Ready.
	failed atomic.Bool
	done   chan struct{}
}

// connSetKey is the key of the provider's own set, the only one that is watched.
const connSetKey = 1

func newWatcher(inner int, ring func(), warn func(format string, args ...any)) (*watcher, error) {
	w := &watcher{connSet: inner, ring: ring, warn: warn, done: make(chan struct{})}
	var err error
	if w.set, err = epoll.New("the sockets of this process"); err != nil {
		return nil, fmt.Errorf("tcp: %w", err)
	}
	if err := w.set.Add(inner, connSetKey, unix.EPOLLONESHOT); err != nil {
		w.set.Close()
		return nil, fmt.Errorf("tcp: %w", err)
	}
	go warm.Stack(w.run)
	return w, nil
}

// arm makes the next event ring the bell, once. It reports whether it will.
func (w *watcher) arm() bool {
	if w.failed.Load() {
		return false
	}
	err := w.set.Change(w.connSet, connSetKey, unix.EPOLLIN|unix.EPOLLONESHOT)
	if err != nil {
		w.fail(err)
	}
	return err == nil
}

func (w *watcher) run() {
	defer close(w.done)
	if err := w.set.Wait(nil, func(int32) { w.ring() }); err != nil {
		w.fail(err)
	}
}

// fail makes the process continue without sleep: it is slow where others need the core, and nothing
// is lost.
func (w *watcher) fail(err error) {
	if !w.failed.Swap(true) {
		w.warn("tcp: the kernel no longer reports arrivals on sockets, so this process polls and never sleeps: %v", err)
		w.ring()
	}
}

func (w *watcher) close() {
	w.set.Close()
	<-w.done
}
