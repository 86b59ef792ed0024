// Package drill runs random programs of point-to-point operations, collectives and recoveries whose ranks
// are killed, on real processes and in the simulator.
//
//	d := drill.Driver{Config: drill.Config{Min: 2, Max: 32, …}, Argv: …}
//	err := d.Run(ctx, seed)         // processes; a *Finding if a rule is broken
//	err = d.Simulate(seed, aim)     // virtual time; the same seed gives the same run
//	err = d.Report.Write(os.Stdout) // operations: ended, with an error, killed within
//
//	drill.Rank(os.Stdout)           // in a process with drill.Env set
//
// A seed and a [Config] determine a run: the number of ranks, their fabrics, the rules after failures, the
// program, the deaths. Every rank computes the program from them. So it can compute the messages that it
// must receive, their sources, and the deaths that may prevent them. The rules:
//
//   - every survivor ends; a watchdog asks hanging ranks for their operations
//   - an operation between survivors succeeds with the right data, also if other ranks die
//   - an operation with dead ranks succeeds or blames exactly these
//   - under ULFM a collective that each dead rank had completed succeeds at every survivor
//   - a wildcard or a collective blames only dead ranks; a pending wildcard continues after the failure is
//     acknowledged; under run-through stabilization it fails at once, and an acknowledged rank is as
//     ProcNull
//   - the value of an agreement, the ranks that its error names, and the members of a shrunken communicator
//     are the same at all survivors; a shrink keeps every living rank and no rank known to be dead
//   - a validate returns the same at all survivors: every rank known to be dead and no living one; the
//     collectives after it are of the others, for all earlier calls, and they have succeeded
//     everywhere if the next validate has no new failure
//   - uniform operations have an outcome of the same class at all survivors
//   - a failure in the error range of a communicator revokes it at each rank that knows of the failure, and
//     no other failure does
//   - each round of recovery, and each failed agreement on acknowledgements, has a failure of its own
//   - a receive that a deadline has ended leaves its buffer unchanged
//   - acknowledged failures were known, in the order in which they became known
//   - a rank that has finalized has no more descriptors and mappings than before, and the job leaves no
//     process and no file
//   - unauthenticated connections to a rank's port change nothing (Driver.Flood makes them)
//
// # Program
//
// A program is a list of phases with transfers of every kind that p2p has. In a phase a rank posts its
// early receives, starts its non-blocking sends, performs its blocking sends and exchanges, receives the
// other messages, and waits. A blocking send is always to an early receive, and exchanges have one order at
// all ranks, so no ranks wait in a circle. Ranks may be several phases apart: there is no barrier between
// phases. Some phases recover, each on communicators of their own: a repair works, agrees on its success,
// and otherwise revokes and shrinks; a validation validates, uses every collective, and validates again,
// until there is no new failure; an interplay has several recoveries under way at once. A program may end
// with a repair, after which some ranks revoke the world before they finalize.
//
// In a few runs ranks sleep for three detection timeouts, before they join, between phases or before they
// finalize. They are not reported failed.
//
// # Deaths
//
// A rank dies at its n-th operation, within an operation of a kind, right after a collective, after some
// time, during the start of the job or in finalize: by its own hand or by the driver's. Others may die in
// the same operation of a recovery. A file that all ranks map records the operations under way; [Report]
// counts them by [Kind]. [Driver.Aim] places the first death within a kind.
//
// Floor 8: it stands on the public interface.
package drill
