// Package peers runs the programs with which Banyan is compared: UCX's ucx_perftest, Open MPI and
// MPICH with small benchmarks of this package and with NetPIPE's, NetPIPE on plain sockets, and the
// control, a plain cache-line ping-pong.
//
// # Sampling on command
//
// A comparison takes many short samples in turn, so a peer must answer at once and be silent in
// between. A [Server] is two processes that stay alive: each reads commands from a FIFO of its own,
// where it sleeps in read(2) between samples without using a core; rank 0 writes the elapsed time
// to a third one. The same protocol ([Job], [Serve]) serves MPI programs, Banyan's own ranks and
// the control:
//
//	driver                      rank 0                  rank 1
//	  lat 8 1 1000 50000 ──►  cmd.0 ─► ping-pong ◄──►  ping-pong ◄─ cmd.1 ◄──
//	  ◄── reply: ok 5630112 (ns)
//
// When the driver dies its ends of the FIFOs close and the ranks exit. ucx_perftest cannot wait
// like this: each of its samples is a run ([UCX]).
//
// All are pinned alike: the first rank to one CPU, the second to another.
//
// The MPI benchmark is mpi/peer.c: ping-pongs, windows, and matching as in bench/match. It is
// compiled when it is needed, by the compiler wrapper of the measured MPI, into the user's cache
// directory, under a name made from the source and the compiler's version text. Without a home
// directory it lies in the one for temporary files; a directory there that others can write to, or
// have made, is refused.
//
// # Runs
//
// A program that cannot wait for commands is run for each sample ([RunProgram]): a program of
// NetPIPE's ([MPI.NetPIPE], [NPtcp]), and a start of many ranks ([TimeStartup]), with mpi/startup.c
// on MPI, and collectives of many ranks ([TimeCollectives]), with mpi/coll.c. A start is timed by
// CLOCK_MONOTONIC, which all processes share: each rank writes into a file when it has passed its
// first barrier, so that no launcher's forwarding of output is in the time.
//
// # Temporary files
//
// FIFOs and other files lie in directories that [Scratch] makes, in memory if there is /dev/shm.
// Each name contains the pid and the start time of its owner: when a process makes its first
// directory, it removes the files of killed processes.
//
// # Limits
//
// It installs nothing: a missing program is an error that names the packages ([NotInstalledError]).
// It computes no ratios.
//
// Floor 8: a harness beside the others. A [Server] is for one goroutine.
package peers
