// Package fault measures the costs of failures: the time to their detection ([Detection], [Silence], [Soak]), the
// operations of recovery ([Recovery], [SimulateAgree]), collectives among the survivors ([Collective]), and the
// plan of a rank in their trees ([Planning]).
//
// An experiment is a value: its options. All of them work in the same way.
//
//	err := o.Check()                                          // invalid options
//	result, err := o.Measure(ctx, start, rest, step)          // in the harness
//	err := o.Rank(w, os.Stdout)                               // in each rank
//
// Measure starts jobs by a [Start], such as [Processes] or, in virtual time, [Collective.Simulated]. Ranks write
// reports to their standard output: progress, intermediate values, the result. All other output passes through to
// rest. Victims end themselves by SIGKILL before the measurement, apart from those that the harness kills.
//
// # Detection
//
// A job has Ranks-1 survivors and some victims, each for one round. In its turn a victim sends a message to every
// survivor, so that all are connected. The survivors report that they are ready, and wait: for the victim, for
// any source, or in a barrier. When all are ready and [Detection.Settle] more has passed, the harness reads the
// clock and kills. Each survivor reads the clock when its operation has returned the error, reports it, and
// sleeps until all have: where ranks share cores, its next work would delay the others. CLOCK_MONOTONIC is common
// to all processes of a machine, so the ranks are on one. Settle decides how deeply survivors wait, since ranks
// spin before they sleep. It varies by half, so that rounds do not hit the same phase of a timer. The error must
// name the victim and no other rank.
//
// # Collectives
//
// The victims are killed first, in one of three orders ([kill.Order]). The survivors validate a communicator for
// each design. The baseline is the design Unaware on a communicator of the survivors: as many ranks, in the same
// processes, in the same order (Hursey & Graham §4.3, §4.4). A set is a loop of operations, and its time that of
// the slowest rank. All lines have a set in turn, in an order that changes from round to round, so that ratios
// and differences of sets of one round count. In a round before all others the results are checked.
//
// In [Collective.MeasureUnknown] ranks die one after another while all are in operations: the time until all
// others have the error, and until they have validated. Operations of the corrected design continue; their time
// is that until all have completed the first one without the victim.
//
// # Recovery
//
// A round is a block of calls of the operation and a block of its baseline, in one job, in an order that
// alternates; their ratio counts. Agree is compared with a reduction and a broadcast of one integer, with
// failures with agree on a communicator of the survivors; shrink with agree on the same communicator, revoke with
// a barrier. A call is timed at every rank from the return of the call before; the first of a block does not
// count. A revocation lasts from the call of Revoke to the return of the last rank's barrier.
//
// # Limits
//
// It prints nothing and computes no intervals.
//
// Floor 8: a harness on the public interface.
package fault
