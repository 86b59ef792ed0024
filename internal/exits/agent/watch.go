package agent

import (
	"errors"
	"fmt"
	"net"
	"sync"

	"golang.org/x/sys/unix"
)

// process is one that is registered.
type process struct{ pid, user int }

// watcher waits in one thread for the ends of many processes. It detects them late, after the
// kernel has freed their memory. That is sufficient, since the only action is to forget them.
type watcher struct {
	epoll int
	quit  int // an eventfd
	ended func(_ process, pidfd int)
	done  chan struct{}

	mu    sync.Mutex
	procs map[int]process // by pidfd
}

func newWatcher(ended func(process, int)) (*watcher, error) {
	w := &watcher{ended: ended, done: make(chan struct{}), procs: make(map[int]process)}
	var err error
	if w.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("agent: epoll: %w", err)
	}
	if w.quit, err = unix.Eventfd(0, unix.EFD_CLOEXEC); err != nil {
		return nil, errors.Join(fmt.Errorf("agent: eventfd: %w", err), unix.Close(w.epoll))
	}
	if err = w.arm(w.quit); err != nil {
		return nil, errors.Join(err, unix.Close(w.quit), unix.Close(w.epoll))
	}
	go w.run()
	return w, nil
}

func (w *watcher) arm(fd int) error {
	err := unix.EpollCtl(w.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
	if err != nil {
		return fmt.Errorf("agent: watch a process: %w", err)
	}
	return nil
}

// add watches a process and takes its pidfd over, unless it fails.
func (w *watcher) add(pidfd int, p process) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.arm(pidfd); err != nil {
		return err
	}
	w.procs[pidfd] = p
	return nil
}

func (w *watcher) run() {
	defer close(w.done)
	events := make([]unix.EpollEvent, 64)
	for {
		n, err := unix.EpollWait(w.epoll, events, -1)
		if err != nil && !errors.Is(err, unix.EINTR) {
			panic(fmt.Sprintf("agent: epoll_wait: %v", err)) // the descriptor has been closed or replaced
		}
		for _, e := range events[:max(n, 0)] {
			if int(e.Fd) == w.quit {
				return
			}
			fd := int(e.Fd)
			w.ended(w.take(fd), fd)
			_ = unix.Close(fd) // it leaves the epoll set too
		}
	}
}

func (w *watcher) take(pidfd int) process {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.procs[pidfd]
	delete(w.procs, pidfd)
	return p
}

func (w *watcher) close() error {
	if _, err := unix.Write(w.quit, []byte{1, 0, 0, 0, 0, 0, 0, 0}); err != nil {
		return fmt.Errorf("agent: end the watcher: %w", err)
	}
	<-w.done
	for fd := range w.procs {
		_ = unix.Close(fd)
	}
	return errors.Join(unix.Close(w.quit), unix.Close(w.epoll))
}

// over reports whether the process behind a pidfd has ended.
func over(pidfd int) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, 0)
	return n == 1 && err == nil
}

// whoIs gets the credentials of a client from the kernel, and a pidfd of exactly this process: its
// pid may be another's by now.
func whoIs(conn *net.UnixConn) (peer *unix.Ucred, pidfd int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, 0, err
	}
	var inner error
	err = raw.Control(func(fd uintptr) {
		if peer, inner = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); inner != nil {
			return
		}
		if peer.Pid == 0 {
			inner = errors.New("it has no pid in the agent's pid namespace: run the agent in the same one, or on the host")
			return
		}
		pidfd, inner = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PEERPIDFD)
		if errors.Is(inner, unix.ENOPROTOOPT) { // before Linux 6.5
			pidfd, inner = unix.PidfdOpen(int(peer.Pid), 0)
		}
	})
	return peer, pidfd, errors.Join(err, inner)
}
