// Package create makes communicators from others where that takes messages or a common outcome:
// split, merge, intercommunicators, and creation that succeeds at all members or at none.
//
//	p := create.Parent{Engine: e, Core: core, Coll: &collectives, Repair: r}
//	made, err := p.Split(color, key)
//	err = p.Outcome(repair.Split, made, err) // the same at all members, if that is wanted
//
// The contexts of new communicators are not negotiated: package p2p computes them. This package
// exchanges colors, groups of other sides, and verdicts.
//
// # An intercommunicator
//
// The leaders of both sides exchange groups and seeds over the peer communicator. Each leader
// broadcasts the result, or a verdict: the class of its error, and the ranks.
//
// Floor 6.
package create
