package spawn

import "io"

// Rank is a running rank as a launcher serves it: a process of this machine, or one behind a proxy.
type Rank struct {
	Number   int
	PMI      io.ReadWriteCloser // the launcher's end of the rank's connection
	Out, Err Stream
	Input    *Input        // nil: the rank reads the launcher's own input, or none
	Exited   chan struct{} // closed when the rank has ended
	Drained  chan struct{} // closed when all its requests have been handled
	Wait     func() End    // waits for the end; called once
}

// Stream is the output of a rank.
type Stream interface {
	// Copy writes whole lines until the rank and its children have closed the stream, or write
	// reports false. wholeLines: a line that the rank has started waits for its end.
	Copy(write func([]byte) bool, wholeLines bool)
	// Written is closed when all that the rank itself printed has been written.
	Written() <-chan struct{}
}

// Policy decides whether the other ranks go on when one fails: is killed by a signal, exits with
// a code other than 0, or joins and exits without finalizing.
type Policy uint8

const (
	// Continue leaves them alone, also when the launcher dies.
	Continue Policy = iota
	// Abort ends them: SIGTERM, after KillGrace SIGKILL. When the launcher dies the kernel kills
	// them.
	Abort
)

// Bind decides on which CPUs ranks run.
type Bind uint8

const (
	// BindNone leaves the ranks on the CPUs of the launcher.
	BindNone Bind = iota
	// BindCore gives rank i the i-th of the CPUs on which the launcher may run, one per physical
	// core before any second one, and sets GOMAXPROCS to 1 unless it is set. Beyond the last CPU it
	// starts again at the first: ranks then share CPUs.
	BindCore
)
