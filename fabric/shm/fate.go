package shm

import (
	"bytes"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/internal/robust"
	"github.com/banyan-hpc/banyan/proc"
)

// Detection says by what this process would learn of the death of another one on
// its machine, "robust futexes" or "pidfd", and why. It tries it, on a thread,
// which takes a fraction of a millisecond.
func Detection() (method, why string) {
	if err := robust.Probe(); err != nil {
		return "pidfd", err.Error()
	}
	return "robust futexes", "the kernel marks a word in shared memory before it frees a dead process's memory"
}

// fencePeer kills the peer, so that a report of its death is true whatever the
// evidence was. To one that has ended nothing happens. A peer in this very
// process is spared.
func (c *Conn) fencePeer() {
	if c.reader.pidfd >= 0 && c.reader.pid != os.Getpid() {
		_ = unix.PidfdSendSignal(c.reader.pidfd, unix.SIGKILL, nil, 0)
	}
}

// departedUnheard reports whether the peer has departed without having heard of
// this process: then it has left word in its header only.
func (c *Conn) departedUnheard() bool {
	return c.segment.header != nil && c.segment.head().state.Load() == stateDeparted
}

// learnFate says how the peer has ended, if that can be had at once.
//
// The kernel keeps a thread's exit status, and of a process that is being killed
// the process's, from before it frees anything until the parent has asked. The
// thread that held the words has given its memory back by now, a zombie has as well:
// of a thread that has not, whoever reads its status may come to free the whole memory of
// the process in its stead. Afterwards a pidfd has it, from Linux 6.15 on.
func (c *Conn) learnFate(by evidence) proc.Cause {
	if c.p.cfg.Exits != nil {
		if cause, ok := c.p.cfg.Exits.Ended(c.reader.pid); ok {
			return cause
		}
	}
	name := fmt.Sprintf("/proc/%d/stat", c.reader.pid)
	switch by {
	case byWord:
		name = fmt.Sprintf("/proc/%d/task/%d/stat", c.reader.pid, c.keeper)
	case byExits:
		return proc.Cause{} // it knows, or nobody does yet
	}
	if status, ok := statusIn(name); ok && c.reader.unreaped() {
		return causeOf(status)
	}
	if status, ok := exitInfo(c.reader.pidfd); ok {
		return causeOf(status)
	}
	return proc.Cause{}
}

// statusIn reads the exit status, in the form of wait, from a stat file of /proc.
// It is a plain read: the runtime's files cost twice as much.
func statusIn(name string) (unix.WaitStatus, bool) {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, false
	}
	defer unix.Close(fd)
	var b [1024]byte
	n, err := unix.Read(fd, b[:])
	if err != nil {
		return 0, false
	}
	fields := bytes.Fields(b[bytes.LastIndexByte(b[:n], ')')+1 : n])
	const statusField = 49 // field 52 of the line, the name being field 2
	if len(fields) <= statusField {
		return 0, false
	}
	v, err := strconv.ParseUint(string(fields[statusField]), 10, 32)
	return unix.WaitStatus(v), err == nil
}

// causeOf makes a cause of an exit status. Who has exited with 0 and has not
// departed has failed as well.
func causeOf(s unix.WaitStatus) proc.Cause {
	if s.Signaled() {
		return proc.Cause{Kind: proc.Signaled, Code: int32(s.Signal())}
	}
	return proc.Cause{Kind: proc.Exited, Code: int32(s.ExitStatus())}
}
