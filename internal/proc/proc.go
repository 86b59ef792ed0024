package proc

import (
	"fmt"
	"syscall"
)

// ID is the job-wide identity of one process: 0 … [MaxIDs]-1. A replacement or
// a spawned process gets a new one; an ID never comes back.
type ID uint32

// MaxIDs bounds the space of process ids. Tables indexed by ID are paged, so
// the bound costs nothing.
const MaxIDs = 1 << 20

// None is no process.
const None = ID(1<<32 - 1)

// Valid reports whether id lies in the space of process ids.
func (id ID) Valid() bool { return id < MaxIDs }

// String gives the id as "process 7".
func (id ID) String() string {
	if id == None {
		return "no process"
	}
	return fmt.Sprintf("process %d", uint32(id))
}

// Kind is the evidence by which the end of a process became known.
type Kind uint8

const (
	// Unknown: it has ended, and the way is unknown.
	Unknown Kind = iota
	// Departed: it finalized in order and announced so. Never a failure.
	Departed
	// Exited: it ended with an exit code and without finalizing.
	Exited
	// Signaled: a signal killed it.
	Signaled
	// Connection: its connection broke and could not be made again.
	Connection
	// Heartbeat: it fell silent for longer than the timeout.
	Heartbeat
	// Corrupt: it wrote data that no correct process writes, and was cut off.
	Corrupt
	// Fenced: it fell silent for longer than the timeout, and was killed for that.
	Fenced
	// Exec: it has called exec, so another program runs in its place. It is killed, if it can be.
	Exec
	// Unreachable: it has not ended, but for lack of a resource one of the two cannot connect to
	// the other, and both have been notified; or no fabric connects them.
	Unreachable
	// Refused: it has not ended, but counts this process as dead and refuses it.
	Refused
)

var kindNames = [...]string{
	Unknown: "ended, how is not known", Departed: "departed", Exited: "exited", Signaled: "killed",
	Connection: "connection lost", Heartbeat: "silent", Corrupt: "corrupt data",
	Fenced:      "silent for longer than detect.timeout, and killed for that",
	Exec:        "called exec without finalizing",
	Unreachable: "unreachable", Refused: "it counts this process as dead",
}

// String names the kind as it appears in messages.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Cause is the cause of a process's end, as far as this process knows it (S0-5).
type Cause struct {
	Kind Kind
	// Code is the exit code for Exited, the signal number for Signaled, the errno
	// for Unreachable (0: there is no fabric; NoAddress), else 0.
	Code int32
}

// NoAddress is the code of an Unreachable process to which there was no connection when the launcher
// ended, which had its address.
const NoAddress = -1

// Failed reports whether the cause is a failure: everything but an orderly
// departure.
func (c Cause) Failed() bool { return c.Kind != Departed }

// String gives the cause as "killed by SIGKILL" or "exited with code 3".
func (c Cause) String() string {
	switch c.Kind {
	case Exited:
		return fmt.Sprintf("exited with code %d without finalizing", c.Code)
	case Signaled:
		return "killed by " + signalName(c.Code)
	case Unreachable:
		if c.Code == 0 {
			return "unreachable, because no fabric joins the two: allow one that does (--fabric; see ftbench doctor)"
		}
		if c.Code == NoAddress {
			return "unreachable, because the launcher is gone, which had its address: ranks that have exchanged a message before reach each other without one"
		}
		return fmt.Sprintf("unreachable, because one side could not connect back: %v%s", syscall.Errno(c.Code), cures[syscall.Errno(c.Code)])
	default:
		return c.Kind.String()
	}
}

// cures are remedies for the errors that make a process unreachable.
var cures = map[syscall.Errno]string{
	syscall.EMFILE: ": raise its limit of open files (ulimit -n)",
	syscall.ENFILE: ": raise the machine's limit of open files (sysctl fs.file-max)",
	syscall.ENOMEM: ": give it more memory (its cgroup's limit, ulimit -v)",
	syscall.ENOSPC: ": enlarge the tmpfs that holds the segments",
	syscall.EPERM:  ": run all processes as one user in one pid namespace",
	syscall.EACCES: ": run all processes as one user in one pid namespace",
}

var signalNames = map[int32]string{
	1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS",
	8: "SIGFPE", 9: "SIGKILL", 11: "SIGSEGV", 13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM",
}

func signalName(n int32) string {
	if s, ok := signalNames[n]; ok {
		return s
	}
	return fmt.Sprintf("signal %d (%v)", n, syscall.Signal(n))
}
