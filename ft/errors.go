package ft

import (
	"errors"
	"fmt"
	"strings"

	"github.com/banyan-hpc/banyan/proc"
)

// The classes of errors, for errors.Is.
var (
	// ErrProcFailed: the operation needed a process that has failed
	// (S1-14, MPI_ERR_PROC_FAILED).
	ErrProcFailed = errors.New("process failed")
	// ErrProcFailedPending: a wildcard receive may never be matched because a
	// possible sender has failed (S1-13).
	ErrProcFailedPending = errors.New("process failed, receive pending")
	// ErrRevoked: the communicator has been revoked.
	ErrRevoked = errors.New("communicator revoked")
	// ErrDeparted: the operation needed a process that has finalized.
	ErrDeparted = errors.New("process has finalized")
	// ErrTruncate: the message was longer than the receive buffer, which holds
	// its beginning.
	ErrTruncate = errors.New("message truncated")
	// ErrClosed: the library has been finalized, or the communicator freed.
	ErrClosed = errors.New("closed")
	// ErrArgument: a wrong argument; nothing was sent or received.
	ErrArgument = errors.New("wrong argument")
)

// ProcFailedError says which processes an operation needed and has lost. It is
// ErrProcFailed to errors.Is.
type ProcFailedError struct {
	Op    string // "send", "recv", …
	Comm  string // the communicator's name
	Ranks []int  // in that communicator; of an intercommunicator, on the remote side
	// Local are the ranks on this process's side of an intercommunicator; nil of
	// other communicators, where both sides are one.
	Local []int
	Cause proc.Cause
}

// Error names operation, communicator, ranks and cause.
func (e *ProcFailedError) Error() string {
	var who []string
	if len(e.Ranks) > 0 {
		who = append(who, "rank "+list(e.Ranks))
	}
	if len(e.Local) > 0 {
		who = append(who, "rank "+list(e.Local)+" of this side")
	}
	return fmt.Sprintf("%s on %s: %s failed: %v", e.Op, e.Comm, strings.Join(who, " and "), e.Cause)
}

func list(ranks []int) string {
	texts := make([]string, len(ranks))
	for i, r := range ranks {
		texts[i] = fmt.Sprint(r)
	}
	return strings.Join(texts, ", ")
}

// Unwrap makes the error an ErrProcFailed.
func (e *ProcFailedError) Unwrap() error { return ErrProcFailed }
