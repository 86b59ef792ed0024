// Package create makes communicators from others where that takes messages or a common outcome:
// split, merge, intercommunicators, and creation that succeeds at all members or at none.
//
//	p := create.Parent{Engine: e, Core: core, Coll: &collectives, Repair: r}
//	made, err := p.Split(color, key)
//	err = p.Outcome(repair.Split, made, err) // the same at all members, if that is wanted
//
// The contexts of new communicators are not negotiated: package p2p computes them. What this
// package exchanges are colors, groups of other sides, and verdicts.
//
// # An intercommunicator
//
// Both sides bring their leader to exchange groups and seeds over the peer communicator. Each leader
// broadcasts what it got, or a verdict: the class of the error that it met, and the ranks.
//
// Floor 6.
package create
