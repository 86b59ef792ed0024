// Package recovery measures what the operations after a failure cost: agree, shrink, revoke.
//
//	result, err := recovery.Measure(ctx, o, start, rest, watch) // in the harness
//	err := recovery.Rank(w, o, os.Stdout)                         // in each rank that it starts
//	points, err := recovery.Simulate(ranks, failures, seed)       // in virtual time, at any scale
//
// # Pairs
//
// Each measurement is of two things in one job, in turn, and what counts is their ratio; times by
// themselves say as much about the machine's mood. A round is a block of calls of the one and a block of
// the other, in an order that changes from round to round. Agree is compared with a
// reduction and a broadcast of one integer, message by message along a binomial tree, on the same communicator; with
// failures, with agree on a communicator of the living that was made after them.
// Shrink is compared with agree on the same communicator, revoke with a barrier of the living.
//
// A call is timed at every rank, by the clock at its return and at the return of the call
// before; the first of a block, which others enter later, does not count. Of a revocation
// the time from the call of Revoke to the return of the last rank's barrier is taken, a barrier that the revoker does not enter; both
// read CLOCK_MONOTONIC, which is one for all processes of a machine.
//
// Before the first round each rank collects the garbage of its start and has the memory mapped that it allocates next, as
// those have who have run for a while: to touch a new page takes longer than to make a communicator in it.
//
// # Failures
//
// With [Options.Failures] so many ranks end themselves by SIGKILL before anything is measured, at equal
// distances and rank 0 among them, and the others acknowledge and agree until nothing is new.
//
// # What it does not do
//
// It starts no processes itself: start does. It prints nothing. Simulate is not for speed: virtual time
// follows from the simulator's parameters, but how it grows, and how many messages there are, is as in a real
// job, whose code it runs.
//
// Floor 8: a harness on the public interface.
package recovery
