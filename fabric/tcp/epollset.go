package tcp

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// epollSet is an epoll set with the owners of its descriptors. Events carry a key of ours, because
// a descriptor's number may be reused while an event of its predecessor is pending.
type epollSet struct {
	fd   int
	last int32
	of   map[int32]any
}

func newEpollSet() (*epollSet, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("tcp: epoll_create1: %w", err)
	}
	return &epollSet{fd: fd, of: make(map[int32]any)}, nil
}

// add starts to watch a descriptor and returns its key.
func (in *epollSet) add(fd int, owner any, events uint32) (int32, error) {
	in.last++
	key := in.last
	ev := unix.EpollEvent{Events: events, Fd: key}
	if err := unix.EpollCtl(in.fd, unix.EPOLL_CTL_ADD, fd, &ev); err != nil {
		return 0, fmt.Errorf("tcp: epoll_ctl: %w", err)
	}
	in.of[key] = owner
	return key, nil
}

// change watches for other events.
func (in *epollSet) change(fd int, key int32, events uint32) error {
	ev := unix.EpollEvent{Events: events, Fd: key}
	if err := unix.EpollCtl(in.fd, unix.EPOLL_CTL_MOD, fd, &ev); err != nil {
		return fmt.Errorf("tcp: epoll_ctl: %w", err)
	}
	return nil
}

// pause stops the watch for a while, and resume continues it.
func (in *epollSet) pause(fd int) { _ = unix.EpollCtl(in.fd, unix.EPOLL_CTL_DEL, fd, nil) }

func (in *epollSet) resume(fd int, key int32) {
	ev := unix.EpollEvent{Events: unix.EPOLLIN, Fd: key}
	_ = unix.EpollCtl(in.fd, unix.EPOLL_CTL_ADD, fd, &ev)
}

// forget ends the watch.
func (in *epollSet) forget(fd int, key int32) {
	delete(in.of, key)
	_ = unix.EpollCtl(in.fd, unix.EPOLL_CTL_DEL, fd, nil)
}

// owner returns the owner of an event's descriptor; nil if it has been forgotten.
func (in *epollSet) owner(ev unix.EpollEvent) any { return in.of[ev.Fd] }
