// Package fault measures how long a death takes to be known: from kill(2), called
// by the harness, to the error of the operation in which each survivor waits.
//
//	result, err := fault.Detect(ctx, o, start, rest, watch) // in the harness
//	err := fault.Rank(w, o, os.Stdout)                        // in each rank that it starts
//
// # A round
//
// A job has Ranks-1 survivors and some victims, each for one round. A victim whose
// turn has come touches the memory it is to have, sends a message to every survivor,
// so that all know each other, and waits for rank 0. Each survivor receives that
// message, says on its standard output that it is ready, and waits: for the victim, for
// anybody, or in a barrier, on a communicator of the survivors and this victim.
// When all are ready and [Options.Settle] more has passed, the harness reads the clock
// and kills. Each survivor reads the clock when its operation has returned with the
// error, tells the harness, and then sleeps until all have: where ranks share cores, what
// it did next would be measured as the others' delay. Both read CLOCK_MONOTONIC, which is one for all
// processes of a machine, namespaces included, so the ranks are on one machine.
//
// Settle decides how deeply survivors wait: ranks with a core of their own spin for
// a millisecond or so before they sleep. It varies by half from round to round, so that no
// timer's phase is hit again and again.
//
// [Result.Each] counts every survivor of every round, [Result.Last] the slowest
// survivor of each round.
//
// # What is checked
//
// That the error is banyan.ErrProcFailed, or banyan.ErrProcFailedPending of a wildcard,
// and names the victim and nobody else. A survivor that notices nothing within
// [Options.Timeout] is an error that names it, and so is a rank that is not ready within
// [Options.StartLimit], which grows with the job: a slow start is no slow detection.
//
// # What it does not do
//
// It starts no processes itself: start does, and hands the ranks' output to a
// writer that Detect gives. It prints nothing.
//
// Floor 8: a harness on the public interface.
package fault
