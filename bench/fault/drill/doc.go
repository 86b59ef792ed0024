// Package drill has real processes carry out random programs of point-to-point
// operations, collectives and recoveries while some of them are killed.
//
//	d := drill.Driver{Config: drill.Config{Min: 2, Max: 32, …}, Argv: …}
//	err := d.Run(ctx, seed)         // a *Finding if something went wrong
//	err = d.Report.Write(os.Stdout) // operations: ended, with an error, killed within
//
//	drill.Rank(os.Stdout)           // in a process with drill.Env set
//
// A seed and a [Config] say everything: the number of ranks, the fabrics that join them,
// the rules after failures, the program, who is to die and when. Every rank computes the
// program from them, so each
// knows what it must receive, from whom, and whose death may spoil it. The rules:
//
//   - every survivor ends; a watchdog asks ranks that do not what they wait for
//   - an operation between survivors succeeds, with the right data, whoever else dies
//   - an operation with the dead succeeds or blames exactly them
//   - under ULFM a collective that each dead rank had completed succeeds at every survivor
//   - a wildcard or a collective blames only ranks that have really died; a wildcard that
//     is pending goes on when the failure is acknowledged; by the rules of run-through
//     stabilization it fails at once, and who was acknowledged is as ProcNull
//   - what an agreement came to, whom its error names, and who is in a shrunken communicator is the
//     same at all survivors; nobody who lives is missing there, nobody who was known to be dead is there
//   - a validate gives all survivors the same: everybody who was known to be dead and nobody who lives; the collectives after it
//     are of the others, in the place of the gone nothing changes, and if the next validate has nobody new they have
//     succeeded at all; that some ranks have called more of them before does not matter
//   - uniform operations have an outcome of the same class at all survivors
//   - a failure in the error range of a communicator has revoked it wherever it is known, and no other has
//   - each round of recovery and each agreement on what is acknowledged has a failure of its own
//   - a receive that a deadline has ended leaves its buffer as it was
//   - what is acknowledged was known, in the order in which it became known
//   - a rank that has finalized has no descriptor and no mapping more than before,
//     and the job leaves no process and no file
//   - strangers at a rank's port change nothing (Driver.Besiege sends them)
//
// # A program
//
// It is a list of phases, each with transfers of every kind that p2p has. In a phase a
// rank first posts the receives that are to be there early, then begins its
// non-blocking sends, then does what blocks until a peer has done the same, then
// receives what it has not posted, then waits. A blocking send is always to a receive
// that is posted early, and exchanges go in one order for all, so no rank waits in a
// circle. There is no barrier between phases: ranks are several phases apart. In the end some phases recover:
// on a communicator of their own ranks work, agree on whether that was well, else revoke and shrink, until it is;
// some ranks spoil the first round. Others mend a communicator in place: they validate, use every collective, validate again, until
// nobody new has failed; then come operations that end alike at all, and an exchange where failures revoke. So may the program end, and then some revoke the world before they
// finalize.
//
// # Sleep
//
// In a few runs ranks sleep for three detection time-outs, before they join, between phases or before they finalize. Nobody is
// lost to that.
//
// # Deaths
//
// A rank dies at its n-th operation, within an operation of a kind, right after a collective, some time after it has
// started, while the job starts or while it finalizes: by its own hand, or killed by the
// driver. Others may be doomed in the same operation of a recovery. What it had under way stands in a file that all ranks map, which outlives
// them; [Report] counts it by [Kind]. [Driver.Aim] has the first death be within a kind.
//
// Floor 8: it stands on the public interface.
package drill
