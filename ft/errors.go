package ft

import (
	"errors"
	"fmt"
	"strings"

	"github.com/banyan-hpc/banyan/internal/proc"
)

// The classes of errors, for errors.Is.
var (
	// ErrProcFailed: the operation needed a process that has failed, or that cannot be reached
	// (S1-14, MPI_ERR_PROC_FAILED).
	ErrProcFailed = errors.New("process failed")
	// ErrProcFailedPending: a non-blocking wildcard receive may never be matched
	// because a possible sender has failed. Nothing has ended: the receive keeps its
	// place in the matching queue, and its request is to be waited for again (S1-13).
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

// The names that the proposals of run-through stabilization give the same class
// (S2-7, S4-18).
var (
	ErrProcFailStop = ErrProcFailed
	ErrRankFailStop = ErrProcFailed
)

// ProcFailedError says which processes an operation needed, or may have needed,
// and has lost. It is ErrProcFailed to errors.Is, or, if Pending,
// ErrProcFailedPending.
type ProcFailedError struct {
	Op    string // "send", "recv", …
	Comm  string // the communicator's name
	Ranks []int  // in that communicator; of an intercommunicator, on the remote side
	// Local are the ranks on this process's side of an intercommunicator; nil of
	// other communicators, where both sides are one.
	Local []int
	// By are living ranks that reported that they could not complete the operation, where this rank waited for them and not for the
	// failed ones.
	By    []int
	Cause proc.Cause
	// Pending: the operation has not ended.
	Pending bool
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
	text := fmt.Sprintf("%s on %s: %s failed: %v", e.Op, e.Comm, strings.Join(who, " and "), e.Cause)
	if len(e.By) > 0 {
		text += fmt.Sprintf("; this rank waited for rank %s, which reports that it could not complete the operation", list(e.By))
	}
	if e.Pending {
		text += "; the receive is pending: acknowledge the failure to wait on, or cancel it"
	}
	return text
}

func list(ranks []int) string {
	texts := make([]string, len(ranks))
	for i, r := range ranks {
		texts[i] = fmt.Sprint(r)
	}
	return strings.Join(texts, ", ")
}

// Unwrap gives the class.
func (e *ProcFailedError) Unwrap() error {
	if e.Pending {
		return ErrProcFailedPending
	}
	return ErrProcFailed
}
