package banyan

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/internal/launch/join"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// The classes of errors, for errors.Is.
var (
	ErrProcFailed        = ft.ErrProcFailed        // a rank that the operation needs has failed or cannot be reached
	ErrProcFailedPending = ft.ErrProcFailedPending // the same, for a pending receive from AnySource: Request.Wait
	ErrRevoked           = ft.ErrRevoked           // the communicator was revoked, by a rank or by its error range
	ErrDeparted          = ft.ErrDeparted          // a rank that the operation needs has finalized
	ErrTruncate          = ft.ErrTruncate          // a message was longer than the buffer, which holds its beginning
	ErrClosed            = ft.ErrClosed            // this rank has finalized, or freed the communicator
	ErrArgument          = ft.ErrArgument          // a mistake of the program; the text names it
)

// ErrNoMemory: [Alloc] has reached the limit, or the machine has no more. The text names the
// remedy.
var ErrNoMemory = errors.New("not enough memory")

// The names of ErrProcFailed in run-through stabilization.
var (
	ErrProcFailStop = ft.ErrProcFailStop
	ErrRankFailStop = ft.ErrRankFailStop
)

// OpError is the error of an operation, for errors.As: the operation, its arguments, and the cause. A message that is
// part of a collective is not named: the collective is. All operations on communicators return one. Its text is like
// "banyan: Recv(src 3, tag 7) on world at rank 0: rank 3 has failed: killed by SIGKILL".
//
//	Op   string  // the operation: "Recv", "Bcast", "Ibcast", …; Irecv is "Recv" too, and every send is "Send"
//	Args Args    // of package ft: its numeric arguments, such as src, dst, tag, bytes, root, color
//	Comm string  // the communicator's name
//	Rank int     // this process's rank in it; negative: it has none
//	Peer int     // the peer of a message, or the rank that ended another operation; -1: any, several or none
//	Err  error   // the cause: one of the classes, a *ProcFailedError, …
//
//	Error() string
//	Operation() string // "Recv(src 3, tag 7) on world"
//	Unwrap() error
type OpError = ft.OpError

// ProcFailedError names the failed ranks that an operation needed, and the cause of the failure. To
// errors.Is it is ErrProcFailed or, if Pending, ErrProcFailedPending. An [OpError] around it names the
// operation.
//
//	Ranks   []int  // ranks in the communicator; of an intercommunicator, on the remote side
//	Local   []int  // those on this side of an intercommunicator
//	By      []int  // living ranks that reported that they could not complete the operation
//	Cause   Cause  // of the failure of the first
//	Pending bool   // the operation has not ended
//
//	Error() string
//	Who() string // "rank 3 has failed"
//	Unwrap() error
type ProcFailedError = ft.ProcFailedError

// IsFailure reports whether an error means that a rank has failed, or that the communicator was
// revoked because of a failure: ErrProcFailed, ErrProcFailedPending or ErrRevoked. A program
// recovers from these errors by [Comm.Agree], [Comm.Shrink] or, for a pending receive,
// [Comm.AckFailed], and returns all others.
func IsFailure(err error) bool {
	return errors.Is(err, ErrRevoked) || errors.Is(err, ErrProcFailed) || errors.Is(err, ErrProcFailedPending)
}

// Class is the class of an error, for a switch.
type Class int

const (
	ClassNone              Class = iota // no error
	ClassRevoked                        // ErrRevoked
	ClassProcFailed                     // ErrProcFailed
	ClassProcFailedPending              // ErrProcFailedPending
	ClassDeparted                       // ErrDeparted
	ClassTruncate                       // ErrTruncate
	ClassClosed                         // ErrClosed
	ClassArgument                       // ErrArgument
	ClassContext                        // context.Canceled, context.DeadlineExceeded
	ClassNoMemory                       // ErrNoMemory
	ClassOther                          // any other error
)

// classes are the errors of each class.
var classes = [ClassOther][]error{
	ClassRevoked: {ErrRevoked}, ClassProcFailed: {ErrProcFailed}, ClassProcFailedPending: {ErrProcFailedPending},
	ClassDeparted: {ErrDeparted}, ClassTruncate: {ErrTruncate}, ClassClosed: {ErrClosed},
	ClassArgument: {ErrArgument}, ClassContext: {context.Canceled, context.DeadlineExceeded},
	ClassNoMemory: {ErrNoMemory},
}

var classNames = [...]string{
	ClassNone: "none", ClassRevoked: "revoked", ClassProcFailed: "process failed",
	ClassProcFailedPending: "process failed, receive pending", ClassDeparted: "departed",
	ClassTruncate: "truncated", ClassClosed: "closed", ClassArgument: "argument", ClassContext: "context",
	ClassNoMemory: "no memory", ClassOther: "other",
}

// String returns the class's name: "revoked".
func (c Class) String() string {
	if c >= 0 && int(c) < len(classNames) {
		return classNames[c]
	}
	return fmt.Sprintf("Class(%d)", int(c))
}

// ClassOf returns the class of an error; ClassNone for nil. If an error wraps several classes, it is
// the first of them: ClassRevoked for a revocation that a failure caused, and for a uniform
// operation the class that is the same at all ranks.
func ClassOf(err error) Class {
	if err == nil {
		return ClassNone
	}
	for class, members := range classes {
		if slices.Contains(members, err) {
			return Class(class)
		}
	}
	switch e := err.(type) { //nolint:errorlint // this walks the tree itself
	case interface{ Unwrap() error }:
		if inner := ClassOf(e.Unwrap()); inner != ClassNone {
			return inner
		}
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			if inner := ClassOf(one); inner != ClassNone && inner != ClassOther {
				return inner
			}
		}
	}
	return ClassOther
}

// The kinds of [Cause].
const (
	CauseUnknown     = proc.Unknown     // the process has ended; the way is unknown, perhaps until later errors
	CauseDeparted    = proc.Departed    // it has finalized; no failure
	CauseExited      = proc.Exited      // it ended with an exit code and without finalizing
	CauseSignaled    = proc.Signaled    // a signal killed it
	CauseConnection  = proc.Connection  // its connection broke and could not be made again
	CauseHeartbeat   = proc.Heartbeat   // it was silent for longer than the timeout
	CauseCorrupt     = proc.Corrupt     // it wrote corrupt data and was cut off
	CauseFenced      = proc.Fenced      // it was silent for longer than the timeout, and was killed
	CauseExec        = proc.Exec        // it has called exec
	CauseUnreachable = proc.Unreachable // it has not ended, but the two cannot connect
	CauseRefused     = proc.Refused     // it has not ended, but counts this process as dead
)

// MissingError names the ranks without which [Init] could not complete.
//
//	Lost  []Lost // by rank, each with Rank and Why; only the first if there are many
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
//	Kind Kind  // [CauseExited], [CauseSignaled], …; its String: "exited", "killed", …
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
	c.world.Abort(1, fmt.Errorf("errors are fatal: %w", err))
}

// SetErrorHandler chooses the handler of failed operations on this communicator in this process;
// nil is [ErrorsReturn], with any default. Communicators derived from this one start with
// the same handler. Concurrent operations share it, so it may run several times at once.
//
// It is called once for each operation that ends with an error, in the caller's goroutine and
// before the caller gets the error. For requests it runs in the call that ends them, after that
// call has ended all requests that it ends. Operations that make a communicator are operations on
// its parent. No lock is held: the handler may call everything that its caller may call; if an
// operation of the handler fails, the handler is called again. It may panic, which unwinds the
// caller. The end of a context is not the failure of an operation.
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

// notify calls the handler for the error of an operation, if err is not nil. Send, Recv and
// Sendrecv do not call it: p2p calls OnError when they have failed, so success does not execute one
// more instruction.
//
// Precondition: the engine's lock is not held.
func (c *Comm) notify(err error) error {
	if err != nil {
		c.tell(err)
	}
	return err
}

// opError returns the error of an operation on this communicator with a cause; nil stays nil.
func (c *Comm) opError(op string, cause error, args ...ft.Arg) error {
	if cause == nil {
		return nil
	}
	e := c.core.OpError(op)
	copy(e.Args[:], args)
	return ft.ErrorOf(e, cause)
}

// notifyOf is notify for the error of an operation with a cause.
func (c *Comm) notifyOf(op string, cause error, args ...ft.Arg) error {
	return c.notify(c.opError(op, cause, args...))
}

// misuse returns the error of a call without a communicator.
func misuse(op string, cause error) error {
	return &OpError{Op: op, Rank: -1, Peer: ft.NoPeer, Err: cause}
}

// ErrEncoding is the class of errors of values that could not be encoded or decoded.
var ErrEncoding = errors.New("encoding")

// badValue returns the error of a received message that does not encode a value of the type.
func (c *Comm) badValue(src, tag int, st Status, cause error) error {
	cause = fmt.Errorf("value from rank %d, tag %d: %w", st.Source, st.Tag, cause)
	return c.notifyOf("RecvValue", cause, arg("src", src), arg("tag", tag))
}

// errNoWorld is the error of calls on the zero World.
var errNoWorld = fmt.Errorf("%w: no world; Init gives one", ErrArgument)

// dropValue is badValue for a message that has not been received. It receives the message, so the
// sender continues.
func (c *Comm) dropValue(m *Message, src, tag int, cause error) error {
	_, _ = m.m.Recv(nil) // ErrTruncate is expected
	return c.badValue(src, tag, m.Status(), cause)
}

func arg(name string, value int) ft.Arg { return ft.Arg{Name: name, Value: value} }

// tell is the part of notify that is not inlined into every operation.
func (c *Comm) tell(err error) {
	c = c.valid()
	c.errors.Add(1)
	if h := c.handler.Load(); h != nil && *h != nil {
		(*h)(c, err)
	}
}

// listener passes errors that p2p reports to a communicator's handler. It is the communicator
// itself, and takes no memory.
type listener Comm

// OnError implements p2p.Listener.
func (l *listener) OnError(err error) { (*Comm)(l).tell(err) }

// failure is a request's error, kept until the lock is released.
type failure struct {
	c   *Comm
	err error
}

type failures []failure

// notify calls the handlers in order and returns the first error.
func (f failures) notify() error {
	if f == nil {
		return nil
	}
	for _, one := range f {
		one.c.tell(one.err)
	}
	return f[0].err
}

// SetErrorHandler chooses the handler of calls on this window that fail on this rank, as [Comm.SetErrorHandler]
// does for communicators. The initial handler is that of the communicator. The handler's Comm is the window's own,
// with the window's name and ranks.
func (w *Window) SetErrorHandler(h ErrorHandler) {
	if w.valid() {
		w.c.SetErrorHandler(h)
	}
}

// end is the error of an operation.
func (w *Window) end(op string, err error, args ...ft.Arg) error {
	if err == nil {
		return nil
	}
	return w.c.notifyOf(op, err, args...)
}

// wrong is the error of a wrong argument.
func (w *Window) wrong(op string, err error) error {
	if !w.valid() {
		return misuse(op, errAbsent)
	}
	return w.c.notifyOf(op, err)
}

// sync returns the error of a synchronisation. After a failure it notifies other ranks that wait for this one
// in a fence, since this rank will not arrive.
func (w *Window) sync(op string, err error, args ...ft.Arg) error {
	if errors.Is(err, ErrProcFailed) {
		w.c.core.Coll().GiveUp()
	}
	return w.end(op, err, args...)
}
