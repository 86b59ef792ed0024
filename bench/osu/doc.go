// Package osu has the two benchmarks that everybody knows from the OSU
// micro-benchmarks, on Banyan's public interface: [Latency], a ping-pong with
// blocking calls, and [Bandwidth], a window of non-blocking sends answered by a
// short message.
//
// # What is measured
//
// As in OSU: one buffer per side, of ordinary memory, page aligned and touched;
// tag and source given; sizes double; the first iterations are not counted; the
// number of iterations falls above 8 KiB. Latency is half of the mean round
// trip. Bandwidth is size × window × iterations over the time until the last
// window's answer; rank 1 posts its window of receives, waits for all of them
// and answers, so the sender cannot run ahead by more than a window.
//
// The clock is read twice per size, around all iterations. Percentiles, when
// they are asked for, come from a second pass that reads the clock once per
// iteration: that read costs about 30 ns, a large part of a short round trip, and
// must not be in the mean. Its median cost is taken off each value; a percentile
// is of single round trips (halved) or of single windows.
//
// Validation, when asked for, is a third pass: before each message the sender
// fills the buffer with a pattern of the iteration and the receiver fills its
// own with something else; after it each byte is checked. In Bandwidth each
// message of the window has a receive buffer of its own as far as 64 MiB go.
//
// All times are of [banyan.World.Now]: virtual in the simulator, where the same
// functions run unmodified. The timed loops do not allocate.
//
// # What it does not do
//
// It starts no processes, prints nothing and does not judge: results go to a
// function of the caller. It has no multi-pair and no bidirectional variant.
//
// Floor 8: a harness on the public interface.
package osu
