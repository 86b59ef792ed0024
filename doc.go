// Package banyan is a message-passing library for jobs that must survive the failure of processes.
//
// A program calls [Run] to become a rank of the job that started it. It sends and receives on the
// [Comm] that [World.Comm] returns:
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
// Run is [Init], the function, and [World.Finalize]. A rank whose function returns an error has
// failed. Start the program with "ftbench run -n 2 -- ./program". Started alone it is a job of one
// rank.
//
// # Map
//
//	[World]                       the job: start, end, facts about it
//	[Comm], [Group]               communicators, and the groups of their ranks
//	[Comm.Send], [Comm.Recv]      messages of bytes; [Send], [Recv] of numbers; [SendValue] of any value
//	[Request], [Persistent]       non-blocking and repeated operations; [Result] of those with a value
//	[Comm.Barrier], [Allreduce]   collectives; [Comm.Ibarrier], [Iallreduce] do not block; [Alltoallv], [Scan]
//	[Comm.Revoke], [Comm.Shrink]  recovery; [Comm.Agree], [Comm.Validate] too
//	[OpError], [ClassOf]          errors, their classes; [ProcFailedError], [IsFailure]: is a recovery due?
//	[Simulate], [Kill]            the same program in virtual time, for tests; failures there
//
// # Failure
//
// An operation that needs a failed process returns an error and does not hang. errors.Is with
// [ErrProcFailed] recognizes it; errors.As with a *[ProcFailedError] gives the ranks and the cause,
// with an *[OpError] the operation.
// Operations that do not need the failed process continue. A non-blocking receive from [AnySource]
// becomes pending with [ErrProcFailedPending] when a possible sender has failed. [Comm.FailedRanks]
// gives the failed ranks, and [Comm.AckFailed] acknowledges them. Messages that a rank sent before it
// failed are received, some after its failure has become known.
//
// The application chooses how to continue. [Comm.Revoke] interrupts a communication pattern at all
// ranks. [Comm.Shrink] makes a communicator of the living ranks. [Comm.Agree] gives all living
// ranks the same answer. These work on a revoked communicator, and while further ranks fail. See
// "Recovering" in docs/guide.md.
//
// An error handler ([Comm.SetErrorHandler]) is called for every failed operation on a communicator
// and on those derived from it. [ErrorsAreFatal] aborts the job. BANYAN_ERRORS=fatal or
// [WithErrorsFatal] makes it the default, as in MPI.
//
// # Data
//
// The methods of [Comm] move bytes. The functions [Send], [Recv], [Allreduce] and so on move slices
// of numbers without a copy. [SendValue] and [RecvValue] send one value: structs of
// numbers as memory, other types encoded. [AllreduceValue] and [BcastValue] take one number.
// [Comm.Dup] and [Comm.Split] make communicators with a context of their own. A library uses one of
// its own, and keeps its state with it under a [Key].
//
// # Fabrics
//
// Each pair of ranks communicates through shared memory if the kernel lets them share it, else
// through a Unix-domain socket, else through TCP. [World.Route] explains the choice, [World.Node]
// numbers the nodes, and [WithFabrics] and the environment restrict it. Host names do not matter:
// the kernel's answer decides, also in containers.
//
// # Buffers
//
// Buffers belong to the caller. Send returns when the buffer may be reused; with Isend and Irecv it
// may be reused when the request is complete. Received data are copied once. Long messages are
// copied by the kernel from the sender's buffer to the receiver's.
//
// # Concurrency
//
// Any goroutine may call anything; two goroutines must not wait for one request. Collectives on a
// communicator match in the order in which each rank calls them, as in MPI. Two goroutines that
// call collectives on one communicator at the same time wait forever or get each other's data: give
// each a communicator of its own (Comm.Dup). [World.Finalize] ends pending operations with
// [ErrClosed]. Calls on c.WithContext(ctx) end with a context.Context, collectives too
// ([Comm.WithContext]); [Init] takes one as an option, Route and Finalize have none.
//
// A nil or zero Comm, World, Message or Persistent, a nil context, operation or key is ErrArgument,
// never a panic.
package banyan
