// Package board is shared memory in which the members of a group see each other's part in a step: what a
// collective of few bytes is made of where all members share a machine.
//
// A message says something to one process. A cell of a [Board] says it to all, and goes on saying it when its writer
// is dead. So who has missed what the others have seen looks again, and comes to the same.
//
// # Steps
//
// The members take numbered steps, each one step at a time. In a step each member posts a part of up to
// [MaxPart] bytes, once; or its cell is sealed, by whoever takes it for dead, before it could post. One of the two
// happens first, and both sides learn which. A cell that has been posted or sealed stays so for the step.
//
// Each member has two cells, for even and for odd steps. Who posts in a step must have seen all other
// living members' cells of the step before, so nobody can still be looking at the one before that. Who finds a
// later step in a cell, or another generation, was not waited for.
//
// # Sleep
//
// A member that sleeps says so for the step, by Nap, and looks once more before it does. Who has seen a
// step to its end then wakes those that it is to wake: either it sees that they nap, or they have seen the end.
//
// # Memory
//
// The cells lie in the segment of one process, which formats them; all others need them mapped. A cell is a line
// of cache, so a post costs each reader one miss. Whoever reads a part must check it: a peer has written it.
//
// # Halls
//
// A [Hall] is the same idea for collectives, which decide nothing: nothing is sealed there, steps may differ, and
// one member may lay up to [MaxLaid] bytes for all. A [Visit] is what one member does there, in which order, without engine or clock.
//
// Floor 0. It knows nothing of processes; members are numbers.
package board
