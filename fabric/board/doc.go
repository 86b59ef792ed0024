// Package board is shared memory in which the members of a group see each other's part in a step: the
// base of collectives of few bytes, and of agreements, where all members share a machine.
//
// A message reaches one process. A cell of a [Board] is seen by all, and keeps its contents when its
// writer is dead. So a member that has missed a state that the others saw looks again, and comes to
// the same result.
//
// # Steps
//
// The members take numbered steps, each one step at a time. In a step each member posts a part of up to
// [MaxPart] bytes, once; or another member that takes it for dead seals its cell before it could post.
// One of the two happens first, and both sides learn which. A cell that has been posted or sealed stays
// so for the step.
//
// Each member has two cells, for even and for odd steps. A member that posts in a step must have seen
// the cells of all other living members of the step before, so no member can still look at the one
// before that. A member that finds a later step in a cell, or another generation, was not waited for.
//
// In a ballot of more than [Section] members one that has seen all of its section post lays the sum of their
// parts, and the other members read that in place of the cells.
//
// # Sleep
//
// A member that sleeps announces it for the step, by Nap, and looks once more before it does. A member
// that has seen a step to its end then wakes its neighbours: either it sees that they nap, or they have
// seen the end.
//
// # Memory
//
// The cells lie in the segment of one process, which formats them; all others need them mapped. A cell is
// a cache line, so a post costs each reader one miss. A reader must check each part: a peer has written
// it.
//
// # Collective segments
//
// A [Segment] is the same idea for collectives, which decide nothing: nothing is sealed there, steps may
// differ, and one member may lay up to [MaxLaid] bytes for all. The first word of such a payload shows whose it is, and of
// which step, so a member that waits for it reads no other line. A [Phase] is the state of one member
// there, without engine or clock.
//
// Floor 0.5. It knows nothing of processes; members are numbers.
package board
