// Package match measures how long it takes to match a message with its receive,
// against the length of the queue in which the partner waits. A queue that is one
// list shows at once: its time grows with its length.
//
// Four series, each between two ranks; rank 0 has the queue and the clock:
//
//	posted           receives wait; the message belongs to the last one posted
//	posted+wild      the same; one in ten of those that wait is for any source,
//	                 and two on another communicator are for any tag
//	unexpected       messages wait; the receive asks for the last one that came
//	unexpected+wild  the same; the receive is for any source
//
// # What is measured
//
// The queue holds as many entries as the point says, the [Batch] at its end
// included, which is renewed in each iteration with tags that were not used
// lately, so that the memory of a bin that was just looked at does not help.
//
// Posted: rank 0 posts a batch and says so with a short message; rank 1 sends
// the batch in reverse order, so that each message belongs to the receive posted
// last. The time per match is that of an iteration over the batch: it holds the
// posting, the way of the message and a tenth of a round trip.
//
// Unexpected: rank 1 sends a batch and a last message; when rank 0 has that one,
// the batch has been taken in. Only the receives, again in reverse order, are in
// the time, and a tenth of a read of the clock.
//
// The lengths are measured in turn, several rounds of them, so that what happens
// to the machine happens to all; a ratio is the median of the rounds' ratios.
// What has waited is received in the end, and everything that is received is
// checked to be what its tag promised, the posted batches but for the last of
// each time excepted: a look at them would be in the time.
//
// # What it does not do
//
// It starts no processes and prints nothing. Messages are of 8 bytes. In the
// simulator it runs, but computing takes no virtual time there: its times say
// nothing.
//
// Floor 8: a harness on the public interface.
package match
