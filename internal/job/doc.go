// Package job builds the stack of one rank of a job, and takes it down again: the providers, the
// progress engine, point-to-point communication, the failure protocols, the failure detector and
// repair.
//
//	j, err := job.Init(ctx, opts)         // a rank that a launcher has started
//	err := job.Simulate(n, s, opts, body) // the ranks of a simulated job
//	j := job.Detached(why)                // a rank of no job, on which every operation fails
//	err := j.Finalize(detach, report)
//
// All three end in one constructor, so a simulated rank is the same stack as a real one on another
// bootstrap: the launcher's, or the simulator's.
//
// # The start of a real rank
//
// A rank opens shared memory, publishes its card (node, cores, fabrics, addresses), and waits until
// all ranks have done so. Rank 0 surveys the cards and publishes the topology. If a pair of ranks
// shares no memory, each rank opens sockets, publishes its card again and waits once more. Cards of
// single peers are read when they are first needed.
//
// A rank that dies before the first fence ends the start of all. One that dies later is a failure
// like any other.
//
// # The end
//
// Finalize returns when every living rank has called it; see [Job.Finalize].
//
// Floor 6.
package job
