package tcp

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// watcher is the goroutine that rings the bell while the process sleeps.
type watcher struct {
	epfd, stop, inner int
	done              chan struct{}
}

const (
	stopKey = iota
	innerKey
)

func newWatcher(inner int, ring func()) (*watcher, error) {
	w := &watcher{epfd: -1, stop: -1, inner: inner, done: make(chan struct{})}
	var err error
	if w.epfd, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("tcp: epoll_create1: %w", err)
	}
	if w.stop, err = unix.Eventfd(0, unix.EFD_CLOEXEC); err != nil {
		_ = unix.Close(w.epfd)
		return nil, fmt.Errorf("tcp: eventfd: %w", err)
	}
	stop := unix.EpollEvent{Events: unix.EPOLLIN, Fd: stopKey}
	idle := unix.EpollEvent{Events: unix.EPOLLONESHOT, Fd: innerKey}
	err = errors.Join(unix.EpollCtl(w.epfd, unix.EPOLL_CTL_ADD, w.stop, &stop), unix.EpollCtl(w.epfd, unix.EPOLL_CTL_ADD, inner, &idle))
	if err != nil {
		_, _ = unix.Close(w.epfd), unix.Close(w.stop)
		return nil, fmt.Errorf("tcp: epoll_ctl: %w", err)
	}
	go w.run(ring)
	return w, nil
}

// arm has the bell rung for the next thing that happens, once.
func (w *watcher) arm() {
	ev := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLONESHOT, Fd: innerKey}
	_ = unix.EpollCtl(w.epfd, unix.EPOLL_CTL_MOD, w.inner, &ev)
}

func (w *watcher) run(ring func()) {
	defer close(w.done)
	events := make([]unix.EpollEvent, 2)
	for {
		n, err := unix.EpollWait(w.epfd, events, -1)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return
		}
		for _, ev := range events[:max(n, 0)] {
			if ev.Fd == stopKey {
				return
			}
			ring()
		}
	}
}

func (w *watcher) close() {
	one := [8]byte{1}
	_, _ = unix.Write(w.stop, one[:])
	<-w.done
	_, _ = unix.Close(w.epfd), unix.Close(w.stop)
}
