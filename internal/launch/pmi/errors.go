package pmi

import (
	"errors"
	"fmt"
	"strings"
)

// Classes of errors, for errors.Is.
var (
	// ErrLauncherGone: the launcher, or rank 0 in its place, has ended, closed the connection or
	// does not answer at all. The job goes on without it; only this call has failed.
	ErrLauncherGone = errors.New("the launcher is gone")
	// ErrProtocol: the launcher, or the program at the address of rank 0, does not speak PMI-1.
	ErrProtocol = errors.New("the launcher does not speak PMI-1")
	// ErrRefused: the launcher, or rank 0 in its place, has refused the request.
	ErrRefused = errors.New("the launcher refused")
	// ErrNotFound: the peer has published no such value before the last Fence.
	ErrNotFound = errors.New("no such value")
	// ErrClosed: the Job has been finalized.
	ErrClosed = errors.New("the job has been finalized")
	// ErrEnvironment: the environment variables of the launcher contradict each other, are
	// incomplete, or name a way of starting that is not supported.
	ErrEnvironment = errors.New("unusable launcher environment")
)

// Lost is one rank that has not entered a barrier.
type Lost struct {
	Rank int
	// Why completes the sentence "rank 2 …": "exited with code 127 before it joined", "has not
	// joined within 1m0s".
	Why string
}

// String returns "rank 2 exited with code 127 before it joined".
func (l Lost) String() string { return fmt.Sprintf("rank %d %s", l.Rank, l.Why) }

// MissingError: a barrier has completed without some ranks. If it is the first barrier of a job,
// the start-up has failed, for all ranks alike. Later it names failed ranks, and the barrier is
// complete among the others.
type MissingError struct {
	// Lost is in ascending order of ranks. Of many missing ranks it has only the first ones.
	Lost []Lost
	// Total is the number of missing ranks, at least len(Lost).
	Total int
}

// Error names the missing ranks, each with its reason.
func (e *MissingError) Error() string {
	var b strings.Builder
	b.WriteString("launch: ")
	for i, l := range e.Lost {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(l.String())
	}
	if more := e.Total - len(e.Lost); more > 0 {
		fmt.Fprintf(&b, "; and %d more", more)
	}
	return b.String()
}
