// Package examples holds complete programs to read and to start from:
//
//	pingpong   two ranks and a clock
//	ring       a token goes round, and a sum over all ranks
//	halo       heat on a 2-D grid: neighbours exchange their edges
//	farm       a master gives out tasks; workers may be killed
//	steps      all sum together; one dies, the others shrink and go on
//	consistent communicators that all members have, or none
//	cg         a conjugate gradient solver whose ranks may be killed
//	samplesort numbers of all ranks, sorted
//	alltoall   each rank sends to each other; what the first contact costs
//	refine     iterative refinement that goes on with the survivors
//
// Farm, consistent and refine are the examples 17.2, 17.1 and 17.3 of the MPI Forum's chapter on process fault tolerance (draft of
// January 2014). Their flag -kill has ranks die by SIGKILL.
//
// Run one with
//
//	go build -o /tmp/ring ./examples/ring && bin/ftbench run -n 4 -- /tmp/ring
//
// Floor 9.
package examples
