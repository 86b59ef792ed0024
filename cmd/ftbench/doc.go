// Command ftbench starts jobs and measures Banyan.
//
//	ftbench run       start the ranks of a job, on this machine or on several
//	ftbench osu       latency, bandwidth, message rate, collectives, start-up, in
//	                  the format of OSU
//	ftbench netpipe   throughput at many sizes, as NetPIPE measures it
//	ftbench match     time to match against the length of the queues
//	ftbench many      costs of many ranks: first contact, messages, memory
//	ftbench fault     costs of failures: time from the death of a rank to its error;
//	                  random programs whose ranks are killed
//	ftbench compare   Banyan against UCX, Open MPI, MPICH, interleaved
//	ftbench tune      find the thresholds that suit this machine; write them to a file
//	ftbench doctor    check this machine for the fabrics; show the fabric of each pair of
//	                  ranks of a job, and the reason
//	ftbench info      every setting, its value here and its source
//	ftbench agent     a daemon on each node: the kernel reports ends of ranks to each other
//	ftbench tour      latency and bandwidth in about a minute, with files and figures
//	ftbench completion  makes bash, zsh or fish complete command lines
//
// docs/reference.md has the help of all of them.
//
// ftbench COMMAND --help, or ftbench help COMMAND, has the options and examples; ftbench --version
// names the build.
//
// # Exit codes
//
//	0   done; with bounds: none is missed; for doctor: nothing is
//	    missing, and a fabric connects each pair of ranks
//	1   something failed; the error contains the cause and the remedy. For doctor: something
//	    is missing, or a pair has no fabric
//	2   the command line is wrong: nothing was measured
//	3   compare, match, fault silence, fault rebalance: a bound is missed
//
// A command that a signal has ended ends with 128 plus the signal's number, 130 after Ctrl-C;
// compare stores its results until then.
//
// ftbench run ends with the code of the first rank that failed, 128 plus the signal's number for
// one that was killed. Ranks' output that cannot be written counts as a failure: 1, or 141 when the
// reader of a pipe has ended.
//
// A benchmark that is started alone starts its ranks itself, by running this binary again under
// package launch; inside a job that another launcher has started it is a rank. Each command is a
// file; the measuring is in packages bench/….
//
// Floor 9.
package main
