// Package tune finds the settings with which a machine is fastest, and keeps the defaults where the
// difference is not significant.
//
// # How it decides
//
// A [Trial] compares two settings in one job, in interleaved pairs of samples beside each of which
// it is known how far apart the cores are. Nothing is tried once for each possible value:
//
//   - An eager limit is where two curves cross. Each size is sent once always
//     eagerly and once always announced; the limit moves from its default up as
//     long as eager is better at the next size, or else down as long as
//     announcing is better. The limit for cores that are near comes from the pairs
//     that were sampled near, the other from those sampled far, and a limit whose
//     distance was not met stays.
//   - A size of a ring is tried at half, twice and four times the default, also
//     with bursts that fill it.
//
// One setting is better than another if in some test (latency, bandwidth) its time is lower by
// [MinGain] or more and the 95 % interval excludes equality, and in no test the reverse holds.
//
// The winner is then confirmed: the new value against the default, as a program would have them,
// with processes that are started anew again and again, because two pairs of processes differ by
// some percent just by where their memory lies, and because of twenty intervals one is wrong. Only
// a value that is better there too is a [Finding] that changes something.
//
// # Limits
//
// It tries no knob whose value is a matter of taste: memory against bursts, patience against power.
//
// Floor 8: above compare and its suite. A [Tuner] decides and starts no processes; a [Bench] carries
// out its trials with pairs of ranks. Both are for one goroutine.
package tune
