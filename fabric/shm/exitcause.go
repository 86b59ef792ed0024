package shm

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/robust"
)

// SlowDetection is the method of Detection where nothing reports a death before the pidfd does.
const SlowDetection = "pidfd"

// Detection returns the method by which this process would learn first of a death on its machine,
// and the reason. It tries the method, on a thread, which takes a fraction of a millisecond.
func Detection() (method, why string) {
	if err := robust.Probe(); err != nil {
		return SlowDetection, err.Error()
	}
	return "robust futexes", "the kernel marks a word in shared memory before it frees the memory of the dead (tried)"
}

// Evidence names the first evidence of the deaths of peers: Config.Exits, robust words, or
// descriptors.
func (p *Provider) Evidence() string {
	switch {
	case p.cfg.Exits != nil:
		return "the kernel's record"
	case p.watch.words != nil:
		return "robust words"
	}
	return SlowDetection
}

// killPeer kills the peer, so that a report of its death is true. It spares a peer in this same process.
func (c *Conn) killPeer() {
	if c.reader.pid != os.Getpid() {
		c.reader.kill()
	}
}

// endSuccessor kills the program that a peer whose program has ended may have become by exec. The kernel ends a thread
// that holds words only with its program, so this can wait until the end has been reported: the lock that it takes is
// busy until then. It comes before the question how the peer has ended, which else finds how exec has ended a thread.
func (c *Conn) endSuccessor() {
	if c.gone.Load() && !(c.reader.handle.late() && c.exitDecided()) {
		c.killPeer()
	}
}

// killSilentPeer kills a peer that counts as dead for its silence, and returns the cause of its
// end. It leaves a note in the peer's header, for the other processes that see the end.
func (c *Conn) killSilentPeer() proc.Cause {
	if c.reader.handle.none() || c.reader.pid == os.Getpid() {
		return proc.Cause{Kind: proc.Heartbeat}
	}
	c.killedSilent = c.segment.header != nil && c.segment.head().fenced.CompareAndSwap(0, 1)
	c.killPeer()
	return proc.Cause{Kind: proc.Fenced}
}

// Fencer reports whether this process was the first to kill a peer for its silence. It is called
// like Poll.
func (p *Provider) Fencer(peer proc.ID) bool {
	c := p.conns[peer]
	return c != nil && c.killedSilent
}

// departedInHeader reports whether the peer has departed without having seen this process's knock:
// then only its header shows it.
func (c *Conn) departedInHeader() bool {
	return c.segment.header != nil && c.segment.head().state.Load() == stateDeparted
}

// ExitCause asks how a peer has ended that is reported with cause proc.Unknown, until the next Poll. It is called like
// Poll.
func (p *Provider) ExitCause(peer proc.ID) proc.Cause {
	c := p.conns[peer]
	if c == nil || !c.gone.Load() {
		return proc.Cause{}
	}
	if c.exitCause.Kind == proc.Unknown && !c.reader.handle.none() {
		c.endSuccessor()
		c.exitCause = c.queryExitCause()
	}
	return c.exitCause
}

// queryExitCause returns how the peer has ended, if known at once, and whether another process
// killed it for its silence. All processes ask Runs about a peer before they kill it for silence;
// reading the header in all other cases delayed the report by some 60 microseconds (measured in
// pairs, not explained).
func (c *Conn) queryExitCause() proc.Cause {
	cause := c.kernelExitStatus()
	if !c.suspected.Load() {
		return cause
	}
	killed := cause.Kind == proc.Unknown || cause == proc.Cause{Kind: proc.Signaled, Code: int32(unix.SIGKILL)}
	if killed && c.segment.header != nil && c.segment.head().fenced.Load() != 0 {
		return proc.Cause{Kind: proc.Fenced}
	}
	return cause
}

// kernelExitStatus returns how the peer has ended, according to the kernel; Unknown if that is not
// known at once.
//
// /proc has the exit status of an ending process until the parent has reaped it. But a reader of
// /proc may become the last user of the process's memory, and has to free it: 9 ms for 512 MB. So
// it is read after the process's first thread has released the memory, which is soon after the
// first thread of all. Afterwards the pidfd has the status, from Linux 6.15 on.
func (c *Conn) kernelExitStatus() proc.Cause {
	if c.exitWatched {
		if cause, _ := c.exitRecord(); cause.Kind != proc.Unknown {
			return cause
		}
	}
	// No pause between the questions: a yield may last for a time slice of the process that polls
	// on this core.
	const most = 10 * time.Microsecond
	for began := time.Now(); ; {
		if !c.reader.hasMemory() {
			if status, ok := statusOf(c.reader.pid); ok && c.reader.unreaped() {
				return causeOf(status)
			}
			break
		}
		if time.Since(began) > most {
			break
		}
	}
	if status, ok := exitInfo(c.reader.process()); ok {
		return causeOf(status)
	}
	return proc.Cause{}
}

// exitRecord is whether and how the peer has ended, according to Config.Exits. It needs no
// descriptor, so it works for a process that had been reaped before this process connected.
//
// Preconditions: c.exitWatched, or the peer's process has ended or is ending.
func (c *Conn) exitRecord() (proc.Cause, bool) {
	switch x := c.p.cfg.Exits; {
	case x == nil:
		return proc.Cause{}, false
	case x.Execs(c.reader.pid) != c.execs:
		return proc.Cause{Kind: proc.Exec}, true
	default:
		return x.Ended(c.reader.pid)
	}
}

// exitDecided reports whether the peer's process is on record as one that ends: the kernel has decided the exit of
// all its threads, so it needs no kill. After exec it is another program, which does.
//
// Preconditions: as exitRecord.
func (c *Conn) exitDecided() bool {
	cause, ended := c.exitRecord()
	return ended && cause.Kind != proc.Exec
}

// hasMemory reports whether the process's first thread still uses the process's memory: without it,
// the process has no program.
func (r *reader) hasMemory() bool {
	if has, ok := memoryInfo(r.process()); ok {
		return has
	}
	var b [1]byte
	_, err := unix.Readlink(fmt.Sprintf("/proc/%d/exe", r.pid), b[:])
	return err == nil
}

// statusOf reads the exit status of an ended process, in the form of wait, from /proc. It is a
// plain read: the runtime's files cost twice as much.
func statusOf(pid int) (unix.WaitStatus, bool) { return statusIn(statOf(pid)) }

// statusIn finds the exit status among the fields of a /proc entry.
func statusIn(fields [][]byte) (unix.WaitStatus, bool) {
	const statusField = 49 // field 52 of the line; field 2 is the name
	if len(fields) <= statusField {
		return 0, false
	}
	v, err := strconv.ParseUint(string(fields[statusField]), 10, 32)
	return unix.WaitStatus(v), err == nil
}

// statOf reads a process's entry in /proc from its state on; nil if there is none.
func statOf(pid int) [][]byte {
	fd, err := unix.Open(fmt.Sprintf("/proc/%d/stat", pid), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	var b [1024]byte
	n, err := unix.Read(fd, b[:])
	if err != nil {
		return nil
	}
	return statFields(b[:n])
}

// statFields splits a /proc entry from the state on. The name before it may hold spaces and
// parentheses: it ends at the last one.
func statFields(entry []byte) [][]byte {
	return bytes.Fields(entry[bytes.LastIndexByte(entry, ')')+1:])
}

// Runs reports whether a connected peer is present and not stopped, according to the kernel: a
// process that gets no core is silent, too. It makes a few system calls. A process that a debugger
// has stopped counts as running, and is traced. It is called like Poll.
func (p *Provider) Runs(peer proc.ID) (runs, traced bool) {
	c := p.conns[peer]
	if c == nil || c.reader.handle.none() {
		return false, false
	}
	c.suspected.Store(true)
	if c.polled.gone() { // it may have become another program
		p.watch.peerEnded(c.watchKey, byPoll)
	}
	fields := statOf(c.reader.pid)
	if len(fields) == 0 || !c.reader.unreaped() {
		return false, false
	}
	switch fields[0][0] {
	case 'T', 'Z', 'X':
		return false, false
	case 't':
		return true, true
	}
	return true, false
}

// causeOf converts an exit status. A process that exits with 0 without departing has failed as
// well.
func causeOf(s unix.WaitStatus) proc.Cause {
	if s.Signaled() {
		return proc.Cause{Kind: proc.Signaled, Code: int32(s.Signal())}
	}
	return proc.Cause{Kind: proc.Exited, Code: int32(s.ExitStatus())}
}
