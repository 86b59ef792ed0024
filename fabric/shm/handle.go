package shm

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/robust"
)

// handle is a pidfd of a process, which may be put off until it is needed: most peers never need theirs in the
// first second. Any goroutine may use it.
type handle struct {
	state   atomic.Int32 // the descriptor plus 1; 0: none; putOff
	opening sync.Mutex
	// These identify the process when the descriptor is opened late: the time of its start, and a word that its
	// thread holds as long as it lives. Without a word the time counts.
	started uint64
	word    *robust.Word
	thread  int32
}

const putOff = -1

// none reports whether there is neither a descriptor nor one to be opened.
func (h *handle) none() bool { return h.state.Load() == 0 }

// late reports whether the descriptor has been put off.
func (h *handle) late() bool { return h.state.Load() == putOff }

// set keeps a descriptor.
func (h *handle) set(fd int) { h.state.Store(int32(fd) + 1) }

// process is the descriptor, or -1 if there is none and none can be opened.
func (r *reader) process() int {
	fd, _ := r.openLate()
	return fd
}

// openLate is process with the reason: fabric.ErrPeerGone if the process has ended and been reaped.
func (r *reader) openLate() (int, error) {
	h := &r.handle
	if s := h.state.Load(); s != putOff {
		return int(s) - 1, nil
	}
	h.opening.Lock()
	defer h.opening.Unlock()
	if s := h.state.Load(); s != putOff {
		return int(s) - 1, nil
	}
	fd, err := r.openPidfd()
	if err == nil && !h.held() {
		_ = unix.Close(fd)
		fd, err = r.openProcess(h.started)
	}
	if err != nil {
		return -1, err
	}
	if !h.state.CompareAndSwap(putOff, int32(fd)+1) {
		_ = unix.Close(fd)
		return -1, fabric.ErrPeerGone // its connection has been released
	}
	return fd, nil
}

// held reports whether the word shows that the process lives. The word of a released connection is not read:
// its memory may have been unmapped.
func (h *handle) held() bool { return !h.none() && h.word != nil && h.word.Held(int(h.thread)) }

// closeHandle ends the use of the descriptor.
func (r *reader) closeHandle() {
	if s := r.handle.state.Swap(0); s > 0 {
		_ = unix.Close(int(s) - 1)
	}
}

// openPidfd opens a pidfd of the process that has the pid. It is the peer if it has the segment with the token
// of the peer's address: see findBacking.
func (r *reader) openPidfd() (int, error) {
	fd, err := pidfdOpen(r.pid)
	switch {
	case err == nil:
		return fd, nil
	case errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT):
		return -1, fabric.ErrPeerGone // the latter two: it is a thread's id by now
	default:
		return -1, fmt.Errorf("shm: pidfd_open(%d): %w%s", r.pid, err, remedy(err))
	}
}

// openProcess opens a pidfd of the process with the pid that started at a time.
func (r *reader) openProcess(at uint64) (int, error) {
	fd, err := r.openPidfd()
	if err != nil {
		return -1, err
	}
	started, err := startTime(r.pid)
	switch {
	case err == nil && started == at:
		return fd, nil
	case err == nil || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH):
		err = fabric.ErrPeerGone
	}
	_ = unix.Close(fd)
	return -1, err
}

// kill kills the process. Without a descriptor to spare, a word that it holds shows that the pid is still its.
func (r *reader) kill() {
	if fd := r.process(); fd >= 0 {
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	} else if r.handle.held() {
		_ = unix.Kill(r.pid, unix.SIGKILL)
	}
}
