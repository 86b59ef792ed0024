// Package examples contains complete programs to read and to start from:
//
//	pingpong   two ranks and a clock
//	ring       a token goes round, and a sum over all ranks
//	halo       heat on a 2-D grid: neighbours exchange their edges
//	farm       a master distributes tasks; workers may be killed
//	steps      all ranks sum; one dies, the others shrink and continue
//	consistent communicators that all members have, or none
//	cg         a conjugate gradient solver whose ranks may be killed
//	samplesort numbers of all ranks, sorted
//	alltoall   each rank sends to each other; the cost of the first contact
//	refine     iterative refinement that continues with the survivors
//
// Farm, consistent and refine are the examples 17.2, 17.1 and 17.3 of the MPI Forum's chapter on process fault
// tolerance (draft of January 2014). With their flag -kill ranks die by SIGKILL.
//
// Run one with
//
//	go build -o /tmp/ring ./examples/ring && bin/ftbench run -n 4 -- /tmp/ring
//
// Floor 9.
package examples
