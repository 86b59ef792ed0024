// Package coll has the collective operations, over the messages of package p2p.
//
// They are [Barrier], [Bcast], [Reduce], [Allreduce], [Gather], [Scatter] and [Allgather] of blocks of one size. All ranks of a
// communicator call the same operations in the same order.
//
// # Ways
//
// Each operation goes over a tree of package coll/tree: one walk, up or down, whatever the design and the shape. [Trees] has this rank's
// place in the tree rooted at the lowest rank that is left, computed at a validate, and that with the last other root; a tree with another
// root is turned or computed anew at the top of the call. Rerouting alone computes its place in each call.
//
//	Barrier         up and down with empty messages (S2-20)
//	Bcast           down; from 512 KiB on, between nodes or along a chain, in segments of 128 KiB, each passed on as soon as it is there
//	Reduce          up, long buffers in the same segments where they are folded as they come; what must keep the order of ranks is gathered and
//	                folded at the root, as subtrees are no neighbours; if it is begun it goes over the tree of Auto instead
//	Gather, Scatter up, down; the blocks of a subtree in one message
//	Allreduce       reduce to the lowest rank that is left, then broadcast
//	Allgather       gather to it, then broadcast
//
// With [Choice].Auto, unless the design keeps the places of the gone, an operation takes another way where that is faster:
//
//	Barrier         dissemination
//	Bcast, Reduce,
//	Gather, Scatter a binomial tree whose subtrees are neighbours: blocks need no sorting, and the order of ranks is kept at no cost
//	Allreduce       recursive doubling; from 16 KiB on recursive halving and doubling, if the elements can be folded apart
//	Allgather       recursive doubling, or for other counts than powers of two Bruck's algorithm
//
// All of them fold in the order of ranks and give the same bytes at all ranks.
//
// An operation works in the buffers of its callers and ends at each rank as it may. With [Setting] it works in [Memory] of the communicator, asks for
// the outcome that it has at all ranks, and writes only if that is success (S0-49).
//
// Lengths that do not fit are ft.ErrArgument. Who meets one, or has other arguments that are wrong, goes on with empty messages, which fit nobody: so no rank waits for it, and none
// takes a part for the whole. Where a long message would go another way than a short one, a mark goes the short one's way first: so
// ranks whose lengths would have them go different ways learn of it there, and ranks that fold in parts also of elements of different lengths.
// A mark is 61 bytes, and so data of that length go after one as well.
//
// Ranks that name different roots, or call different operations that block, get ft.ErrArgument where a message or the shared memory shows it; they may also wait
// for each other. A root that has sent all before another root's message comes has success, and finds that message in place of one of the next operation that blocks.
// What neither lengths nor roots show nobody finds out: elements of other types of the same length, other operations to fold with. A rank
// that calls with nothing may have success while others have the error: nothing is what it was to get.
//
// # Shared memory
//
// Where all ranks are on one machine, a barrier, a broadcast of up to 2 KiB, and an allreduce or allgather of up to 1 KiB (less among more than
// 22 ranks) take no messages but go through memory that they share: flat.go, and p2p.Flat.
//
// # Failure
//
// In run-through stabilization an operation on a communicator of which a member is known to have failed, and is not
// agreed to be gone, returns ft.ErrProcFailed before it sends anything. If a failure becomes
// known during the operation, it ends with that error at this rank; what it has
// announced to others is withdrawn. Other ranks may have completed, or wait for
// this one until they learn of the failure too: telling all of them is the
// detectors' part.
//
// In ULFM an operation that all failed members had completed succeeds at every living one. It ends with ft.ErrProcFailed where it needs a message
// of a failed member that has not come, or of a living one that reports that it gave up; see giveup.go in package p2p. After such an error the operations that
// follow return it at once.
//
// A validate (package ft/repair) makes operations possible again among those who are left. They run
// on the communicator that p2p.Comm.Coll gives, which has no gaps, so rebalanced trees are what they
// would be had the gone never been there: roots are translated on the way in, blocks and the ranks in
// errors on the way out, and nothing between looks at who is gone. Trees that keep the places of the gone are computed in the ranks of the
// communicator, and walked in those of Coll.
//
// # Concurrency
//
// Operations on different communicators may run at the same time; on one
// communicator one at a time that blocks. Any number may have been begun: each is a [Schedule], which goes on with progress.
//
// Floor 5.
package coll
