package banyan

import (
	"fmt"

	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/internal/launch/join"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// The classes of errors, for errors.Is. Package ft explains each.
var (
	ErrProcFailed        = ft.ErrProcFailed
	ErrProcFailedPending = ft.ErrProcFailedPending
	ErrRevoked           = ft.ErrRevoked
	ErrDeparted          = ft.ErrDeparted
	ErrTruncate          = ft.ErrTruncate
	ErrClosed            = ft.ErrClosed
	ErrArgument          = ft.ErrArgument
)

// The names of ErrProcFailed in run-through stabilization.
var (
	ErrProcFailStop = ft.ErrProcFailStop
	ErrRankFailStop = ft.ErrRankFailStop
)

// ProcFailedError names the failed ranks that an operation needed, and the cause of the failure. To
// errors.Is it is ErrProcFailed or, if Pending, ErrProcFailedPending.
//
//	Op      string // "send", "recv", …
//	Comm    string // the communicator's name
//	Ranks   []int  // ranks in the communicator; of an intercommunicator, on the remote side
//	Local   []int  // those on this side of an intercommunicator
//	By      []int  // living ranks that reported that they could not complete the operation
//	Cause   Cause  // of the failure of the first
//	Pending bool   // the operation has not ended
//
//	Error() string
//	Unwrap() error
type ProcFailedError = ft.ProcFailedError

// MissingError names the ranks without which [Init] could not complete.
//
//	Lost  []Lost // by rank, each with Rank and Why; of many only the first
//	Total int    // the number of missing ranks
//
//	Error() string
type MissingError = join.MissingError

// ProcID is the number of a process in its job: its rank in the world. It is a uint32.
//
//	String() string
//	Valid() bool // false: of no process
type ProcID = proc.ID

// Cause is the cause of a process's end.
//
//	Kind Kind  // its String: "exited", "killed", "connection lost", …
//	Code int32 // the exit code, the number of the signal, or an errno
//
//	Failed() bool   // false: it has departed in order
//	String() string // for a message: "killed by SIGKILL"
type Cause = proc.Cause

// ErrorHandler is called for an operation on a communicator that has ended with an error. The
// caller of the operation gets the error as well. See [Comm.SetErrorHandler].
type ErrorHandler func(c *Comm, err error)

// ErrorsReturn is the handler that does nothing: the caller gets the error. It is the default,
// unless [WithErrorsFatal] or BANYAN_ERRORS chooses the other.
func ErrorsReturn(*Comm, error) {}

// ErrorsAreFatal is the handler that aborts the job, with a message that names rank, communicator,
// operation and error.
func ErrorsAreFatal(c *Comm, err error) {
	c = c.valid()
	c.world.Abort(1, fmt.Errorf("errors are fatal to rank %d of %s: %w", c.Rank(), c.Name(), err))
}

// SetErrorHandler chooses the handler of failed operations on this communicator in this process;
// nil is [ErrorsReturn], whatever the default is. Communicators derived from this one start with
// the same handler. Concurrent operations share it, so it may run several times at once.
//
// It is called once for each operation that ends with an error, before the caller gets that and in
// the caller's goroutine: for requests in the call that ends them, after all that the call ends
// have ended. Operations that make a communicator are operations on its parent. No lock is held:
// the handler may call everything that its caller may call; an operation of its own that fails
// calls it again. It may panic, which unwinds the caller. The end of a context is not the failure
// of an operation.
func (c *Comm) SetErrorHandler(h ErrorHandler) {
	if c.plain() || c.bound() {
		c.valid().handler.Store(&h)
	}
}

// ErrorHandler is the handler that was set last, or [ErrorsReturn].
func (c *Comm) ErrorHandler() ErrorHandler {
	c = c.valid()
	if h := c.handler.Load(); h != nil && *h != nil {
		return *h
	}
	return ErrorsReturn
}

// notify calls the handler for the error of an operation, if it is one. Send, Recv and Sendrecv do
// not come here: p2p calls OnError where they have failed, so that success does not execute one
// instruction more.
//
// Precondition: the engine's lock is not held.
func (c *Comm) notify(err error) error {
	if err != nil {
		c.tell(err)
	}
	return err
}

// tell is the part of notify that is not inlined into every operation.
func (c *Comm) tell(err error) {
	c = c.valid()
	if h := c.handler.Load(); h != nil && *h != nil {
		(*h)(c, err)
	}
}

// listener passes errors that p2p meets to a communicator's handler. It is the communicator itself,
// and takes no memory.
type listener Comm

// Met implements p2p.Listener.
func (l *listener) OnError(err error) { (*Comm)(l).tell(err) }

// failure is a request's error, kept until the lock is free.
type failure struct {
	c   *Comm
	err error
}

type failures []failure

// notify calls the handlers, in order, and gives the first error.
func (f failures) notify() error {
	if f == nil {
		return nil
	}
	for _, one := range f {
		one.c.tell(one.err)
	}
	return f[0].err
}
