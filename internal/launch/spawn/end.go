package spawn

import (
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// End is how one rank ended.
type End struct {
	Rank, PID int
	Host      string // of Spec.Hosts; "" without
	// Code is the exit code, and 0 for a rank that a signal killed.
	Code int
	// Signal is the signal that killed it, 0 when it exited.
	Signal unix.Signal
	// After is the time from the start of the process to its end.
	After time.Duration
	// Joined: it has connected to the launcher. Finalized: it has ended the connection in order.
	Joined, Finalized bool
	// Stopped: a signal killed it after the launcher had started to end the job.
	Stopped bool
	// Lost: the connection to its host ended before the rank did. How it ended is unknown; Code is 0.
	Lost bool
}

// Failed reports whether the rank ended abnormally: by a signal, with a code other than 0, or
// without finalizing after it had joined.
func (e End) Failed() bool {
	return e.Lost || e.Signal != 0 || e.Code != 0 || e.Joined && !e.Finalized
}

// Status is the rank's exit status as a shell counts it: the exit code, 128 and the number of the
// signal, or 1 for a rank that did not finalize or was lost.
func (e End) Status() int {
	switch {
	case e.Lost:
		return 1
	case e.Signal != 0:
		return 128 + int(e.Signal)
	case e.Code == 0 && e.Failed():
		return 1
	}
	return e.Code
}

// String completes the sentence "rank 3 …".
func (e End) String() string {
	switch {
	case e.Lost:
		return "was lost with the connection to its host"
	case e.Signal != 0:
		name := unix.SignalName(e.Signal)
		if name == "" {
			name = "signal " + strconv.Itoa(int(e.Signal))
		}
		return "was killed by " + name
	case e.Joined && !e.Finalized:
		return fmt.Sprintf("exited with code %d without finalizing", e.Code)
	}
	return fmt.Sprintf("exited with code %d", e.Code)
}
