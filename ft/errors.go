package ft

import (
	"errors"
	"fmt"
	"strings"

	"github.com/banyan-hpc/banyan/internal/proc"
)

// The classes of errors, for errors.Is.
var (
	// ErrProcFailed: the operation needed a process that has failed or cannot be reached
	// (MPI_ERR_PROC_FAILED).
	ErrProcFailed = errors.New("process failed")
	// ErrProcFailedPending: a non-blocking wildcard receive may never be matched because a possible
	// sender has failed. The receive has not ended: it keeps its place in the matching queue, and
	// its request can be waited for again (ULFM 17.2.2).
	ErrProcFailedPending = errors.New("process failed, receive pending")
	// ErrRevoked: the communicator has been revoked. If a failure has done so, by the communicator's
	// error range, the error is ErrProcFailed as well.
	ErrRevoked = errors.New("communicator revoked")
	// ErrDeparted: the operation needed a process that has finalized.
	ErrDeparted = errors.New("process has finalized")
	// ErrTruncate: the message was longer than the receive buffer, which holds its beginning.
	ErrTruncate = errors.New("message truncated")
	// ErrClosed: the library has been finalized, or the communicator has been freed.
	ErrClosed = errors.New("closed")
	// ErrArgument: a wrong argument; nothing was sent or received.
	ErrArgument = errors.New("wrong argument")
)

// The names of the same class in the proposals of run-through stabilization.
var (
	ErrProcFailStop = ErrProcFailed
	ErrRankFailStop = ErrProcFailed
)

// ProcFailedError names the failed processes that an operation needed or may have needed. To
// errors.Is it is ErrProcFailed or, if Pending, ErrProcFailedPending. An [OpError] around it names the
// operation and the communicator.
type ProcFailedError struct {
	Ranks []int // ranks in the communicator; in an intercommunicator, on the remote side
	// Local are the failed ranks on this process's side of an intercommunicator.
	Local []int
	// By are living ranks that reported that they could not complete the operation, if this rank
	// waited for them and not for the failed ones.
	By    []int
	Cause proc.Cause
	// Pending: the operation has not ended.
	Pending bool
}

// Error names the ranks and the cause.
func (e *ProcFailedError) Error() string {
	text := e.Who() + ": " + e.Cause.String()
	if len(e.By) > 0 {
		text += fmt.Sprintf("; this rank waited for rank %s, which reports that it could not complete the operation",
			list(e.By))
	}
	if e.Pending {
		text += "; the receive is pending: acknowledge the failure to wait on, or cancel it"
	}
	return text
}

// Who names the failed ranks: "rank 3 has failed".
func (e *ProcFailedError) Who() string {
	var who []string
	if len(e.Ranks) > 0 {
		who = append(who, "rank "+list(e.Ranks))
	}
	if len(e.Local) > 0 {
		who = append(who, "rank "+list(e.Local)+" of this side")
	}
	switch {
	case who == nil:
		return "a process outside of the group has failed"
	case len(e.Ranks)+len(e.Local) > 1:
		return strings.Join(who, " and ") + " have failed"
	}
	return who[0] + " has failed"
}

func list(ranks []int) string {
	texts := make([]string, len(ranks))
	for i, r := range ranks {
		texts[i] = fmt.Sprint(r)
	}
	return strings.Join(texts, ", ")
}

// Unwrap returns the class.
func (e *ProcFailedError) Unwrap() error {
	if e.Pending {
		return ErrProcFailedPending
	}
	return ErrProcFailed
}
