// Package many measures the costs of point-to-point messages among many ranks.
//
// Each rank receives from all others and sends to all others at once, with Irecv and Isend. The first of these
// all-to-alls makes the connections: it is the first contact, which is measured in several fresh jobs. The second
// and further ones show the steady state.
//
//	s, err := many.Run(w, o)                  // on each rank of a job; rank 0 has the sample
//	s, err := many.Measure(ctx, 16, o, start) // starts such a job, of Banyan or of another library
//
// # Method
//
// The buffers are memory of the kernel, as those of malloc in C: buffers of this size in Go's heap set off a
// collection in each rank, which falls into the first all-to-alls. They are written before, and a barrier comes before
// the clock starts; it connects a few of the pairs. The time is that of the slowest rank. Only barriers separate the
// all-to-alls of a size. The processor time is that of all ranks in the first contact. The shared memory is the growth
// of Shmem in /proc/meminfo since before the job was started, so that other programs disturb it. Each message is
// checked by its first byte.
//
// # Limits
//
// It prints nothing. In the simulator processor time and memory are those of one process and mean nothing.
//
// Floor 8: a harness on the public interface, above package peers.
package many
