// Package netpipe measures two ranks as NetPIPE (Network Protocol Independent Performance
// Evaluator, version 3) does: messages of many sizes, including sizes just beside a power of two,
// in a ping-pong, and the best of several trials counts. The result is a curve of throughput
// against size and, with time in place of size, the signature of the network.
//
//	err := netpipe.Run(world, netpipe.Defaults(), func(p netpipe.Point) error {
//		return netpipe.WriteRow(file, p)
//	})
//
// # Method
//
// [Sizes] is NetPIPE's schedule. Per size the number of messages is chosen so that a trial takes
// [Options.TrialTime]: a shorter pass, which is also the warm-up, measures the time of one. Each of
// [Options.Trials] trials is timed as a whole, and the shortest is the result; all of them are
// kept.
//
//	PingPong       one buffer on each side, sent and received into; half of the
//	               round trip is the time
//	Streaming      rank 0 sends, rank 1 receives; rank 1's time over the number
//	Bidirectional  both send and receive at once, buffers apart; the time of an
//	               exchange is not halved, and both messages count as throughput
//
// One buffer for both directions, NetPIPE's default, keeps received data in the cache for the next
// send; it favours all libraries alike. With [Options.Cold], NetPIPE's -I, each message is sent
// from and received into memory that was not used for long: both sides walk through a pool of at
// least 64 MiB and of twice the largest cache, piece by piece. Memory of the library itself, such
// as rings, stays in the caches, and for small messages the processor may fetch the next pieces
// ahead.
//
// The integrity check is a pass of its own after the trials, so that it costs them nothing: the
// sender fills each message with a pattern of its number, the receiver spoils its buffer before and
// checks each byte after.
//
// Throughput is in Mbps of 2^20 bits per second: NetPIPE 3's unit, not the SI's.
//
// All times are of [banyan.World.Now]: virtual in the simulator, where the same functions run
// unmodified. The timed loops do not allocate.
//
// # Limits
//
// It starts no processes and draws nothing.
//
// Floor 8: a harness on the public interface.
package netpipe
