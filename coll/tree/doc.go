// Package tree computes the communication partners of a rank in a collective operation: the root, the parent and the
// children ([Plan]), from the set of living ranks ([Alive]), the form of the tree ([Shape]) and the treatment of
// failed ranks ([Design]).
//
// The designs are those of Hursey and Graham, "Analyzing Fault Aware Collective Performance in a Process Fault
// Tolerant MPI" (§3.1), with the one to which they are compared:
//
//	Unaware         the tree over all ranks, as if none had failed
//	Reroute         the same tree; the parent of a dead child adopts its children, in the operation ([Plan.Walk])
//	LookupAvoiding  the same edges, computed beforehand ([Build])
//	Rebalance       the tree over the living ranks, numbered densely
//
// Corrected, of Küttler and others (PPoPP 2019), has the trees of Rebalance here; package coll/corrected contains
// its treatment of unknown failures.
//
// A rebalanced tree is computed without visiting dead ranks: Alive converts between a living rank and its number in
// a logarithmic number of steps, and all else is arithmetic with numbers. So another root needs no table of its own:
// the tree is rotated, and a plan for it costs the same as the first one.
//
// In the binomial tree number r has the children r+2^i for every 2^i > r, as in the prototype that the paper
// measured. The first child has the largest subtree; children are listed in the order in which they are served.
//
// Nothing here has I/O, a clock or state beyond its arguments. An Alive is immutable, so any number of goroutines
// may use it; a Plan belongs to one goroutine at a time.
//
// Floor 1. It imports the standard library only.
package tree
