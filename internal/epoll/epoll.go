package epoll

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Set is a set of descriptors that one goroutine waits for.
type Set struct {
	fd   int
	file *os.File
	conn syscall.RawConn
	// closed: written by Close before it ends Wait, which reads it.
	closed atomic.Bool
}

// New makes an empty set; name is for errors.
func New(name string) (*Set, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll_create1: %w", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil { // else the runtime does not poll it
		_ = unix.Close(fd)
		return nil, fmt.Errorf("fcntl: %w", err)
	}
	s := &Set{fd: fd, file: os.NewFile(uintptr(fd), name)}
	if s.conn, err = s.file.SyscallConn(); err == nil {
		err = s.file.SetReadDeadline(time.Time{}) // fails unless the runtime polls the file
	}
	if err != nil {
		_ = s.file.Close()
		return nil, err
	}
	return s, nil
}

// Add begins to watch a descriptor; Wait calls with the key.
func (s *Set) Add(fd int, key int32, events uint32) error {
	return s.control(unix.EPOLL_CTL_ADD, fd, key, events)
}

// Change watches for other events, or once more for one that is reported once.
func (s *Set) Change(fd int, key int32, events uint32) error {
	return s.control(unix.EPOLL_CTL_MOD, fd, key, events)
}

func (s *Set) control(op, fd int, key int32, events uint32) error {
	ev := unix.EpollEvent{Events: events, Fd: key} // the field's name is a habit
	if err := unix.EpollCtl(s.fd, op, fd, &ev); err != nil {
		return fmt.Errorf("epoll_ctl: %w", err)
	}
	return nil
}

// Remove ends the watch of a descriptor that is still open.
func (s *Set) Remove(fd int) { _ = unix.EpollCtl(s.fd, unix.EPOLL_CTL_DEL, fd, nil) }

// Wait calls each for every event, until Close: then it returns nil. Before that it calls woken, if it
// is not nil, whenever the runtime reports events. An error means that nothing is watched any more.
func (s *Set) Wait(woken func(), each func(key int32)) error {
	var failed error
	events := make([]unix.EpollEvent, 16)
	err := s.conn.Read(func(fd uintptr) (stop bool) {
		if woken != nil {
			woken()
		}
		for {
			n, err := unix.EpollWait(int(fd), events, 0)
			switch {
			case errors.Is(err, unix.EINTR):
				continue
			case err != nil:
				failed = fmt.Errorf("epoll_wait: %w", err)
				return true
			case n == 0:
				return false
			}
			for _, ev := range events[:n] {
				each(ev.Fd)
			}
		}
	})
	if s.closed.Load() { // which is err
		return failed
	}
	return errors.Join(failed, err)
}

// Close ends Wait and frees the set.
func (s *Set) Close() {
	s.closed.Store(true)
	_ = s.file.Close()
}
