// Package corrected contains a broadcast and a barrier that complete in spite of failures that are not known yet. It
// is a pure state machine, one [Machine] for each rank of a communicator: its inputs are calls, frames, ends of
// ranks and timers, its outputs are frames, timers and outcomes.
//
// # The broadcast
//
// After Küttler and others, "Corrected trees for reliable group communication" (PPoPP 2019). The value goes down a
// binomial tree. The numbering is interleaved: the subtree of place p below the level 2^k has the places p+m·2^k, so
// a failed rank leaves gaps that are scattered over the ring of places. A correction follows: each rank that has the
// value sends it to its neighbours on the ring, in both directions, and further at growing distances until it has
// had a message from that direction. A rank that is reached in this way serves its own subtree. So a gap closes from
// both sides, and only a run of dead neighbours takes longer distances. A long value is offered to neighbours, which
// ask for it if the tree has not brought it after a while.
//
// None of this needs a detector. A rank returns when it has the value and has sent it on; the correction continues
// without the caller.
//
// # The barrier
//
// Contributions go up the same tree, and the release comes down as a broadcast. A rank that has entered waits for
// the living ranks below it. It cannot distinguish a dead rank from a late one. So if a rank dies before it has
// contributed, all others wait until its failure is known; a later death delays none.
//
// # Known ends
//
// A rank whose parent has ended contacts the nearest living ancestor, or, without one, the lowest living place,
// which acts as the root. It contributes there again, or asks for the value.
//
// If the root of a broadcast has ended, the acting root finds out which ranks have the value. Its place is the
// epoch. Each rank contributes its value. A rank without one waits for all below it first, and is closed: from then
// on it accepts only decisions of that epoch or a later one. The acting root decides: on the value if any living
// rank has it, else that it is lost. A dead rank is silent once its end is known (ft/agree, E3), and closed ranks
// accept nothing older, so a value that no contribution has brought cannot appear later.
//
// # Kept values
//
// A rank that has the value must serve a rank without it, also after it has returned. It keeps the values of the
// operations since the last barrier. Each operation whose number is a multiple of [Period] is a barrier of the
// machine's own, and no rank is more than two periods ahead of it: so at most 2·Period values are kept.
//
// # Guarantees
//
//   - If a living rank has returned a value, every living rank that calls the operation gets it.
//   - A broadcast is lost only if its root has ended; then it is lost at all living ranks.
//   - No barrier returns before every living rank has entered it.
//   - All calls return if all living ranks make them, every end becomes known, and living ranks make
//     progress.
//
// They hold among the living ranks: a rank that has returned and dies may have been the only one with the value.
// They assume that ranks that count as ended have ended.
//
// Floor 1. It imports the standard library only.
package corrected
