package shm

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// watcher waits for the end of peers on their pidfds. It sets a flag and rings
// the bell; the engine's Poll does the rest.
type watcher struct {
	epfd, stop int
	// pending: some connection's gone flag is new. Written by the goroutine,
	// taken by Poll.
	pending atomic.Bool
	mu      sync.Mutex
	// conns by a key of their own: a descriptor's number may come back while
	// an event of its predecessor is still on the way.
	conns map[int32]*Conn
	next  int32
	done  chan struct{}
	ring  func()
}

func newWatcher(ring func()) (*watcher, error) {
	w := &watcher{epfd: -1, stop: -1, conns: make(map[int32]*Conn), done: make(chan struct{}), ring: ring}
	var err error
	if w.epfd, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("shm: epoll_create1: %w", err)
	}
	if w.stop, err = unix.Eventfd(0, unix.EFD_CLOEXEC); err != nil {
		_ = unix.Close(w.epfd)
		return nil, fmt.Errorf("shm: eventfd: %w", err)
	}
	if err = w.register(w.stop, stopKey); err != nil {
		_, _ = unix.Close(w.epfd), unix.Close(w.stop)
		return nil, err
	}
	go w.run()
	return w, nil
}

// stopKey is no connection's.
const stopKey = 0

func (w *watcher) register(fd int, key int32) error {
	// The kernel hands the key back as it is; the field's name is a habit.
	ev := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLONESHOT, Fd: key}
	if err := unix.EpollCtl(w.epfd, unix.EPOLL_CTL_ADD, fd, &ev); err != nil {
		return fmt.Errorf("shm: epoll_ctl: %w", err)
	}
	return nil
}

func (w *watcher) run() {
	defer close(w.done)
	events := make([]unix.EpollEvent, 16)
	for {
		n, err := unix.EpollWait(w.epfd, events, -1)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return
		}
		for _, ev := range events[:max(n, 0)] {
			if ev.Fd == stopKey {
				return
			}
			w.ended(ev.Fd)
		}
	}
}

func (w *watcher) ended(key int32) {
	w.mu.Lock()
	c := w.conns[key]
	w.mu.Unlock()
	if c != nil {
		c.gone.Store(true)
		w.pending.Store(true)
		w.ring()
	}
}

// add begins to watch c's pidfd.
func (w *watcher) add(c *Conn) error {
	w.mu.Lock()
	w.next++
	c.watchKey = w.next
	w.conns[c.watchKey] = c
	w.mu.Unlock()
	err := w.register(c.reader.pidfd, c.watchKey)
	if err != nil {
		w.mu.Lock()
		delete(w.conns, c.watchKey)
		w.mu.Unlock()
	}
	return err
}

// forget ends the watch of c; its descriptor may be closed afterwards.
func (w *watcher) forget(c *Conn) {
	w.mu.Lock()
	delete(w.conns, c.watchKey)
	w.mu.Unlock()
	_ = unix.EpollCtl(w.epfd, unix.EPOLL_CTL_DEL, c.reader.pidfd, nil)
}

func (w *watcher) close() {
	one := [8]byte{1}
	_, _ = unix.Write(w.stop, one[:])
	<-w.done
	_, _ = unix.Close(w.epfd), unix.Close(w.stop)
}
