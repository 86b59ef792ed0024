// Package tree says who talks to whom in a collective operation: for one rank the root, its parent and its
// children ([Plan]), from the set of those who live ([Alive]), the form of the tree ([Shape]) and what is to
// happen where ranks have failed ([Design]).
//
// The designs are those of Hursey and Graham, "Analyzing Fault Aware Collective Performance in a Process Fault
// Tolerant MPI" (§3.1), with the one that they are measured against:
//
//	Unaware         the tree over all ranks, as if nobody had failed
//	Reroute         the same tree; who finds a child dead adopts its children, in the operation ([Plan.Walk])
//	LookupAvoiding  the same edges, found beforehand ([Build])
//	Rebalance       the tree over those who live, numbered densely
//
// Corrected, of Küttler and others (PPoPP 2019), has the trees of Rebalance here; what it does about failures
// that nobody knows is in package coll/corrected.
//
// A rebalanced tree is found without looking at the dead: Alive gives the number of a rank among those who live and the rank
// with a number in a logarithmic number of steps, and all else is arithmetic with numbers. So another root needs no table of its own: the tree is
// rotated, and a plan for it costs what the first one did.
//
// In the binomial tree number r has the children r+2^i for every 2^i > r, as in the prototype that the paper
// measured. The first child has the largest subtree; children are listed in the order in which they are served.
//
// Nothing here has I/O, a clock or state beyond its arguments. An Alive does not change and may be used by many at
// once; a Plan belongs to one goroutine at a time.
//
// Floor 1. It imports the standard library only.
package tree
