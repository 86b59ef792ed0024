// Package tune finds the settings with which a machine is fastest, and keeps the defaults if the
// difference is not significant.
//
// # Method
//
// A [Trial] compares two settings in one job, in interleaved pairs of samples. The distance of the
// cores is measured beside each. Nothing is tried once for each possible value:
//
//   - An eager limit is the size at which two curves cross. Each size is sent once always
//     eagerly and once always announced; the limit moves from its default up as
//     long as eager is better at the next size, or else down as long as
//     announcing is better. The limit for near cores comes from the pairs
//     that were sampled near, the other from those sampled far, and a limit whose
//     distance did not occur stays.
//   - A size of a ring is tried at half, twice and four times the default, also
//     with bursts that fill it.
//
// One setting is better than another if in some test (latency, bandwidth) its time is lower by
// [MinGain] or more and the 95 % interval excludes equality, and in no test the reverse holds.
//
// The winner is then confirmed: the new value against the default, as a program would use them, with
// processes that are started anew again and again. Two pairs of processes differ by some percent
// just by the place of their memory, and one of twenty intervals is wrong. Only a value that is
// better there too is a [Finding] that changes something. An algorithm of a collective that has won is measured
// against the default once more in the same job, both on new communicators.
//
// # Limits
//
// It tries no knob whose value is a preference: memory against bursts, latency against power.
//
// Floor 8: above compare and its suite. A [Tuner] decides and starts no processes; a [Bench] carries
// out its trials with pairs of ranks. Both are for one goroutine.
package tune
