package netns

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"

	vnetns "github.com/vishvananda/netns"
)

// away runs fn on the calling goroutine's thread after leave has taken it to another network
// namespace, and brings it back.
//
// It uses the caller's own thread, not a new one, because of Pdeathsig: a command is killed when
// the thread that forked it ends, so some callers have locked their thread. Threads that the
// runtime starts meanwhile are made by a thread in the old namespace: locking guarantees that.
//
// A thread that cannot be brought back stays locked, so that the runtime gives it to no other
// goroutine and ends it with this one.
func away(leave func() error, fn func() error) (err error) {
	runtime.LockOSThread()
	home, err := vnetns.Get()
	if err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("netns: open the thread's namespace (is /proc mounted?): %w", err)
	}
	defer func() {
		back := vnetns.Set(home)
		err = errors.Join(err, home.Close())
		if back != nil {
			err = errors.Join(err, fmt.Errorf("netns: this goroutine's thread stays in the other namespace: setns: %w", back))
			return
		}
		runtime.UnlockOSThread()
	}()
	if err := leave(); err != nil {
		return err
	}
	return fn()
}

// within runs fn in the namespace.
func (s *space) within(fn func() error) error {
	return away(func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.handle.IsOpen() {
			return errClosed
		}
		if err := vnetns.Set(s.handle); err != nil {
			return fmt.Errorf("netns: enter %s: %w", s.name, privileged(err))
		}
		return nil
	}, fn)
}

// Start is cmd.Start on a host. The command and its children live there; its
// Pdeathsig follows the calling goroutine's thread as with cmd.Start, so lock
// the thread where that matters. It may be called concurrently.
func (n *Net) Start(host int, cmd *exec.Cmd) error { return n.Do(host, cmd.Start) }

// Do calls fn on the calling goroutine, whose thread is on the host meanwhile. Sockets that fn
// makes stay on the host, in any goroutine that uses them later. Goroutines that fn starts are not
// there: give net.Dial an address, not a name to be resolved. It may be called concurrently.
func (n *Net) Do(host int, fn func() error) error {
	s, err := n.host(host)
	if err != nil {
		return err
	}
	return s.within(fn)
}
