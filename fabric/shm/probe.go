package shm

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// probe accesses this process's own segment, at the address a, in the way of peers, so that a
// process detects early if a seccomp profile or an emulator prevents it.
func probe(a *address, unsealed bool) error {
	self := reader{pid: int(a.pid)}
	fd, err := self.openProcess(a.started)
	if err != nil {
		return fmt.Errorf("shm: finding this process as peers do (pidfd_open, /proc/PID/task/PID/stat): %w", err)
	}
	defer unix.Close(fd)
	if err := unix.PidfdSendSignal(fd, 0, nil, 0); err != nil {
		return fmt.Errorf("shm: pidfd_send_signal: %w", err)
	}
	if _, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0); err != nil &&
		!errors.Is(err, unix.EINTR) {
		return fmt.Errorf("shm: ppoll: %w", err)
	}
	return probeSegment(a, unsealed)
}

// probeSegment opens the segment by its name in /proc, and maps its header.
func probeSegment(a *address, unsealed bool) (err error) {
	s := &segment{geometry: a.geometry, fd: -1}
	defer func() { err = errors.Join(err, s.close()) }()
	if s.fd, err = openBackingOf(a); err != nil {
		return fmt.Errorf("shm: opening this process's own segment as peers do (readlinkat, openat, pread64): %w", err)
	}
	if err = s.checkSealed(unsealed); err == nil {
		s.header, err = mapRange(s.fd, 0, s.pageOffset(0))
	}
	return err
}

// readsItself reports whether the kernel copies memory, by a copy of this process's own.
func (p *Provider) readsItself() bool {
	var token [tokenBytes]byte
	self := reader{pid: int(p.self.pid)}
	n, _ := self.copy(unix.SYS_PROCESS_VM_READV, token[:], p.self.probe)
	return n == len(token) && token == p.self.token
}
