// Package banyan is a message-passing library for jobs that must survive the
// death of processes.
//
// A program calls [Run] to become a rank of the job that started it, and sends
// and receives on the [Comm] that [World.Comm] gives:
//
//	func main() { banyan.Run(work) }
//
//	func work(w *banyan.World) error {
//		c := w.Comm()
//		if c.Rank() == 0 {
//			return c.Send([]byte("hello"), 1, 0)
//		}
//		_, err := c.Recv(make([]byte, 5), 0, 0)
//		return err
//	}
//
// Run is [Init], the function, and [World.Finalize]; a rank whose function returns an error has failed.
// Start it with "ftbench run -n 2 -- ./program". Alone it is a world of one.
//
// # Failure
//
// An operation that needs a process which has died returns an error instead of
// hanging: errors.Is(err, [ErrProcFailed]) tells, and errors.As with a
// *[ProcFailedError] names the ranks and the cause. Operations that do not need
// the dead go on as if nothing had happened. A receive from [AnySource] tells that
// somebody has died who might have sent, with [ErrProcFailedPending], and goes on:
// [Comm.GetFailed] says who, [Comm.AckFailed] that the application knows.
//
// What then becomes of the job is the application's choice. [Comm.Revoke] has all ranks leave a
// communication pattern of which the dead was part, [Comm.Shrink] makes a communicator of the living, and [Comm.Agree] gives all living
// ranks one answer to the question whether all have succeeded. They work on a communicator that has been revoked and while further ranks die;
// docs/guide.md, "Recovering", says which fits what.
//
// Whoever would rather have it in one place sets a handler, which is told of every
// failed operation on a communicator and on those made from it
// ([Comm.SetErrorHandler]); [ErrorsAreFatal] aborts the job. With BANYAN_ERRORS=fatal
// or [WithErrorsFatal] it is so from the start, as in MPI.
//
// # What is sent
//
// The methods of [Comm] move bytes. The functions [Send], [Recv], [Allreduce] and
// so on move slices of numbers from where they lie; [SendValue] and [RecvValue]
// move values of any other type through an encoding. [Comm.Dup] and [Comm.Split]
// make communicators whose messages meet nobody else's: a library takes one of
// its own, and keeps its state with it under a [Key].
//
// Most programs can be tried in a test: [Simulate] runs them in one process, in
// virtual time, with deaths where they are wanted.
//
// # Fabrics
//
// Each pair of ranks communicates through shared memory if the kernel lets the two
// share it, else through a Unix-domain socket, else through TCP. [World.Route] tells
// which and why, [World.Node] who shares a node; [WithFabric] and the environment
// restrict it. Names of hosts play no part: what counts is the kernel's answer, also in
// containers.
//
// # Buffers
//
// Buffers are the caller's. Send returns when the buffer may be reused; with
// Isend and Irecv that is when the request has been waited for. Received data
// are copied once, or, if they are long, pulled by the kernel straight from the
// sender's buffer.
//
// # Concurrency
//
// Everything may be called from any goroutine; two goroutines do not wait for one
// request. Collectives of a communicator match in the order in which each rank calls them, as in
// MPI. So two goroutines that call them on one communicator at the same time wait for ever or get
// each other's data: give each a communicator of its own (Comm.Dup). [World.Finalize] ends what others still wait for with [ErrClosed]. Calls
// that wait for messages or requests have a variant that ends with a context.Context, as [Comm.RecvContext];
// collective operations, Route and Finalize have none.
//
// A nil or zero Comm, World, Message or Persistent, a nil context, operation or key is ErrArgument, never a panic.
//
// Floor 7.
package banyan
