// Package coll contains the collective operations, over the messages of package p2p: barrier, bcast, reduce,
// allreduce, gather, scatter, allgather, alltoall, reduce-scatter, scan and exchanges among neighbours, with blocks
// of one size or of any, blocking and non-blocking. All ranks of a communicator call the same operations in the same
// order. [Comm] holds the state of one communicator.
//
// # Schedules
//
// Each algorithm is written once, as a [Schedule] of steps. A blocking operation runs it in the goroutine of its
// caller, a non-blocking one as progress allows.
//
// An operation uses a tree of package coll/tree: one walk, up or down, for each design and shape. [Trees]
// has this rank's place in the tree rooted at the lowest remaining rank, computed at a validate, and its place in
// the tree of the last other root. Only the design Reroute computes its place in each call.
//
//	Barrier         up and down with empty messages
//	Bcast           down; between nodes or along a chain in segments of 128 KiB from 512 KiB on, each
//	                passed on as soon as it has come
//	Reduce          up, long buffers in the same segments, folded as they come; an operation that must keep
//	                the order of ranks uses the binomial tree whose subtrees are neighbours instead
//	Gather, Scatter up, down; the blocks of a subtree in one message
//	Allreduce       reduce to the lowest remaining rank, then broadcast
//	Allgather       gather to it, then broadcast
//
// With [Choice].Auto, unless the design keeps the places of failed ranks, the table of package coll/choose
// determines the algorithm for the communicator and the length:
//
//	Barrier         dissemination, or up and down a tree
//	Bcast, Reduce,
//	Gather, Scatter a binomial tree whose subtrees are neighbours: blocks need no sorting, and the order
//	                of ranks is kept at no cost; in segments
//	Bcast           along a chain in segments
//	Bcast, Gather,
//	Scatter         a message of the root to each rank, or of each rank to the root
//	Allgather       a message of each to each; recursive doubling; Bruck's algorithm where the number of ranks is no
//	                power of two; a ring
//	Allreduce       recursive doubling; if the elements can be folded apart, recursive halving and doubling, or
//	                each rank folds a part that all others send to it
//
// With every choice:
//
//	Alltoall(v)     a message to each other rank, all receives before the first send
//	Allgatherv,
//	ReduceScatter   the same; a fold of the received blocks, in the order of ranks
//	Scan, Exscan    in steps of doubled distance to the ranks above
//	Gatherv,
//	Scatterv        a message of each rank to the root, or of the root to each
//	Neighbor…       a message to each neighbour, all receives before the first send
//
// All of them fold in the order of ranks and give the same bytes at all ranks.
//
// If all ranks, up to 512, are on one machine, the following operations use shared memory (package coll/sm): a
// blocking barrier, a broadcast of up to 2 KiB, an allreduce or allgather(v) in which a rank contributes up to 1 KiB
// (4 KiB of two ranks, less among more than 21), and an alltoall(v) or reduce-scatter in which it contributes up to 16 KiB in all
// (10 KiB of two ranks, less among more than 15). If the ranks of each of several nodes share memory, a blocking barrier,
// broadcast, allreduce or allgather has two levels: the memory of each node, and messages among the nodes' lowest ranks.
//
// With the design tree.Corrected a barrier or a broadcast uses control frames and completes in spite of failures;
// see corrected.go.
//
// On an intercommunicator an operation gives each side the data of the other one, over the binomial trees of the
// sides; their lowest ranks exchange the messages across. See between.go. There is no scan.
//
// # Arguments
//
// An operation works in the buffers of its callers, and its outcome may differ among ranks. With an [Agreement] it
// works in memory of the communicator, asks for the common outcome of all ranks, and writes only if that is success.
//
// Lengths that do not fit are ft.ErrArgument. A rank that detects one, or has other wrong arguments, continues with
// empty messages, which fit no rank. So no rank waits for it, and none takes a part for the whole. If a message
// would use another algorithm than the shortest ones, a length header goes their way first. From it ranks detect
// that their lengths select different algorithms, or that they fold elements of different lengths. A header is 61
// bytes, and so data of that length follow one as well.
//
// Ranks that name different roots, or call different blocking operations, get ft.ErrArgument if a message or the
// shared memory shows it; they may also wait for each other. A root that has sent all its messages before another
// root's message arrives has success; its next blocking operation receives that message instead of its own. Other
// mismatches are undetected: elements of other types of the same length, other operations to fold with. A rank that
// calls with an empty buffer may have success while others have the error.
//
// # Failure
//
// In run-through stabilization an operation on a communicator with a member that is known to have failed, and is not
// agreed to have failed, returns ft.ErrProcFailed before it sends anything. If a failure becomes known during the
// operation, it ends with that error at this rank; its announcements to others are withdrawn. Other ranks may have
// completed, or wait for this one until their detectors report the failure too.
//
// In ULFM an operation that all failed members had completed succeeds at every living one. It ends with
// ft.ErrProcFailed if it needs a message of a failed member that has not come, or of a living one that reports that
// it gave up; see giveup.go in package p2p. After such an error the operations that follow return it at once.
//
// A validate (package ft/repair) makes operations possible again among the remaining ranks. They run on the
// communicator that p2p.Comm.Coll returns, which has no gaps: roots are translated on the way in, blocks and the
// ranks in errors on the way out, and no step between considers failed ranks. Trees that keep the places of failed
// ranks are computed in the ranks of the communicator, and walked in those of Coll.
//
// # Concurrency
//
// Operations on different communicators may run at the same time; on one communicator one blocking operation at a
// time, and any number of non-blocking ones.
//
// Floor 5.
package coll
