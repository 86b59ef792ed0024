// Package match measures the time to match a message with its receive, against the length of the queue
// in which the partner waits. The time of a queue that is one list grows with its length.
//
// Four series, each between two ranks; rank 0 has the queue and the clock:
//
//	posted           receives wait; the message belongs to the last one posted
//	posted+wild      the same; one in ten of those that wait is for any source,
//	                 and two on another communicator are for any tag
//	unexpected       messages wait; the receive asks for the last one that came
//	unexpected+wild  the same; the receive is for any source
//
// # Measurement
//
// The queue holds as many entries as the point names, the [Batch] at its end included. Each iteration
// renews the batch with tags that were not used lately, so that a bin is not in the cache.
//
// Posted: rank 0 posts a batch and sends a short message; rank 1 sends the batch in reverse order, so that
// each message belongs to the receive posted last. The time per match is that of an iteration over the
// batch: it includes the posting, the transfer of the message and a tenth of a round trip.
//
// Unexpected: rank 1 sends a batch and a last message; when rank 0 has that one, the batch has arrived.
// The time includes only the receives, again in reverse order, and a tenth of a read of the clock.
//
// The lengths are measured in turn, in several rounds, so that a disturbance of the machine hits all of
// them; a ratio is the median of the rounds' ratios. In the end the waiting entries are received. All
// received messages are checked against their tags, apart from posted batches that are not the last of
// a time: the check would be in the time.
//
// # Limits
//
// It starts no processes and prints nothing. Messages have 8 bytes. Its times in the simulator, where
// computing takes no virtual time, are meaningless.
//
// Floor 8: a harness on the public interface.
package match
