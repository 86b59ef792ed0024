// Package coll has the collective operations, over the messages of package p2p.
//
// This version has what creating communicators and the first benchmarks need:
// [Barrier], [Bcast], [Reduce], [Allreduce] and [Allgather] of blocks of one
// size, on binomial trees by rank, which take a number of steps that is
// logarithmic in the number of ranks. All ranks of a communicator call the
// same operations in the same order.
//
// An operation works in the buffers of its callers and ends at each rank as it may. With [Setting] it works in [Memory] of the communicator, asks for
// the outcome that it has at all ranks, and writes only if that is success (S0-49).
//
// Lengths that do not fit are ft.ErrArgument. Who meets one goes on with empty messages, which fit nobody: so no rank waits for it, and none
// takes a part for the whole.
//
// # Failure
//
// An operation on a communicator of which a member is known to have failed, and is not
// agreed to be gone, returns ft.ErrProcFailed before it sends anything (S2-7). If a failure becomes
// known during the operation, it ends with that error at this rank; what it has
// announced to others is withdrawn. Other ranks may have completed, or wait for
// this one until they learn of the failure too: telling all of them is the
// detectors' part.
//
// A validate (package ft/repair) makes operations possible again among those who are left. They run
// on the communicator that p2p.Comm.Coll gives, which has no gaps, so the trees are what they
// would be had the gone never been there: roots are translated on the way in, blocks and the ranks in
// errors on the way out, and nothing between looks at who is gone.
//
// # Concurrency
//
// Operations on different communicators may run at the same time; on one
// communicator one at a time that blocks. Any number may have been begun: each is a [Schedule], which goes on with progress.
//
// Floor 5.
package coll
