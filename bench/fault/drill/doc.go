// Package drill has no code but tests: real processes carry out random programs of
// point-to-point operations and collectives while some of them are killed.
//
// A seed says everything: the number of ranks, the fabrics that join them, the
// program, who is to die and when. Every rank computes the program from it, so each
// knows what it must receive, from whom, and whose death may spoil it. The rules:
//
//   - every survivor ends; a watchdog asks ranks that do not what they wait for
//   - an operation between survivors succeeds, with the right data, whoever else dies
//   - an operation with the dead succeeds or blames exactly them
//   - a wildcard or a collective blames only ranks that have really died; a wildcard that
//     is pending goes on when the failure is acknowledged
//   - a rank that has finalized has no descriptor and no mapping more than before,
//     and the job leaves no process and no file
//
// The test prints the seed of a run that fails; BANYAN_SEED=N runs it alone. With
// BANYAN_LONG=1 there are thousands of runs, else a few hundred in half a minute.
//
// # A program
//
// It is a list of phases, each with transfers of every kind that p2p has. In a phase a
// rank first posts the receives that are to be there early, then begins its
// non-blocking sends, then does what blocks until a peer has done the same, then
// receives what it has not posted, then waits. A blocking send is always to a receive
// that is posted early, and exchanges go in one order for all, so no rank waits in a
// circle. There is no barrier between phases: ranks are several phases apart.
//
// Floor 8: it stands on the public interface.
package drill
