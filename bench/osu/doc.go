// Package osu has the benchmarks of the OSU micro-benchmarks, on Banyan's public interface. [All]
// is the table of them:
//
//	latency     a ping-pong with blocking calls
//	bw          a window of non-blocking sends answered by a short message
//	bibw        such a window in both directions at once, without the answer
//	latency_persistent, bw_persistent, bibw_persistent   the same by persistent requests
//	bw_fan_in   windows from each of many ranks to one, which answers each
//	bw_fan_out  windows from one rank to each of many
//	mbw_mr      bw by several pairs of ranks at once: bandwidth and message rate
//	multi_lat   latency by several pairs at once, the mean of the pairs
//	latency_mt  latency with several goroutines on each side
//	barrier     a barrier of all ranks
//	bcast       a broadcast from rank 0
//	allreduce   a sum of 4-byte integers over all ranks
//
//	reduce, gather, scatter, allgather, alltoall, reduce_scatter, scan, and with blocks of their own lengths
//	ibarrier, ibcast, …   the non-blocking collectives beside a computation
//
//	put_latency, get_latency, acc_latency, get_acc_latency   an operation on the other rank's memory
//	fop_latency, cas_latency                                 fetch-and-add, compare-and-swap of 8 bytes
//	put_bw, get_bw, put_bibw                                 windows of puts or gets
//
// [Start] measures a job's start-up, as osu_init does, with a first barrier.
//
// # Method
//
// As in OSU: one buffer per side (per goroutine in latency_mt), of ordinary memory, page aligned and touched;
// tag and source given; sizes double; the first iterations are not counted; the number of iterations falls
// above 8 KiB; of several pairs rank i belongs to rank pairs+i. Latency is half of the mean round trip, in
// latency_mt as one sender sees it. Bandwidth is size × window × iterations (× directions, × pairs) over the
// time until the last window's answer; the receiver posts its window, waits for all of it and answers, so the
// sender cannot run ahead by more than a window.
//
// The time of several pairs begins with the pair that starts first and ends when all are done, a barrier
// included: some microseconds, which count only if few short windows are requested. OSU takes the mean of the
// pairs' times instead. If pairs take turns on the cores, that mean adds up bandwidths that never existed at
// the same time.
//
// In latency_mt a sender's mean contains the time in which it waited for its turn on a core; its percentiles
// contain that only as far as it waited within a round trip.
//
// Each call of a collective is timed at each rank, and the mean of all is the result; the least and the most
// are of the ranks' means. Between two broadcasts and between two sums there is a barrier, which is not timed:
// a root could otherwise begin the next while others are in this one. Barriers follow each other. Sums replace
// the operands (OSU's option -l); the library allocates memory of the same length in each call, and that is in
// the time. A call has a read of the clock in its time, and so has each part of a call beside a computation: some
// 30 ns, as in OSU, which matter for the shortest calls. Percentiles are of single calls of all ranks; OSU's are of
// means over the ranks.
//
// A non-blocking collective is measured alone and then, as often, beside a computation that is as long as a
// call took at this rank. OSU's computes until the clock has reached a time; this one does as many steps as
// take that time without disturbance, so it is measured too. Tests are spread over it evenly.
//
// Operations on memory are those of rank 0 on a window, and each iteration ends with its synchronization: the
// time of a put is that until the data are in the memory of rank 1, which waits for a message meanwhile. With
// pscw and fence both ranks put in turn, and a latency is half of both. The messages of a window of them have
// places of their own up to 64 MiB. The memory of the window is made once for all sizes, where OSU makes it for
// each. FetchAndOp and CompareAndSwap wait by themselves; the synchronization follows nevertheless, as in OSU.
//
// For the other benchmarks the clock is read twice per size, around all iterations. Percentiles, on request,
// come from a second pass that reads the clock once per iteration: that read costs about 30 ns, a large part of
// a short round trip, and must not be in the mean. Its median cost is subtracted from each value; a percentile
// is of single round trips (halved) or of single windows, over all pairs. A window's bandwidth is that of its pair,
// or of rank 0 and all its peers in a fan, and not of all pairs together: that of no moment is known.
//
// Validation, on request, is a third pass: before each message the sender fills the buffer with a pattern of
// the iteration and the receiver fills its own with other bytes; after it each byte is checked. In a window
// each message has a receive buffer of its own up to 64 MiB. In a broadcast all ranks but the root spoil their
// buffer before; a sum is checked number by number. For operations on memory the owner checks its memory
// afterwards, and the origin the data that it has read.
//
// All times are of [banyan.World.Now]: virtual in the simulator, where the same functions run unmodified,
// except latency_mt: a simulated rank is one goroutine. The timed loops do not allocate, except allreduce and
// operations on windows.
//
// # Limits
//
// It starts no processes, prints nothing and does not judge: results go to a function of the caller. There is
// one buffer for all messages of a window.
//
// Floor 8: a harness on the public interface.
package osu
