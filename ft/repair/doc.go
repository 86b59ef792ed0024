// Package repair implements the operations that an application calls after a failure: ULFM's agree
// and shrink, and run-through stabilization's validate. Each is one agreement (package ft/agree)
// and an operation on communicators (package p2p).
//
// # One agreement for everything
//
// A communicator has one sequence of agreements, numbered in the order in which its members call
// them. Shrink agrees on the ended members and nothing else: the context of the new communicator is
// derived from the old one's, the agreement's number and the ended members, so it needs no second
// round. Operations identify themselves in the agreement, so ranks that call different ones get an
// error instead of each other's values.
//
// Validate is the same agreement as shrink; the communicator applies the decision itself
// (p2p.Validation). Several communicators with the same members share one agreement, in the
// sequence of the one with the lowest context, and compare the sets of communicators.
//
// Uniform operations, which have the same outcome at all members, end with such an agreement as
// well: see [Repair.End].
//
// Nothing here checks whether the communicator is revoked: agreement frames bypass matching, so
// agree and shrink work on a revoked communicator (ULFM 17.3.1).
//
// # Members that cannot reach each other
//
// Of two such members the one with the higher id ends before it takes part: see
// [Repair.PeerUnreachable].
//
// # After the call
//
// A process keeps its decisions and answers later requests for them, in any goroutine that makes
// progress, at the latest in the detector driver's. A sequence of agreements outlives its
// communicator's Free, as other members may still need its last decision, until a thousand more
// have been freed.
//
// # Concurrency
//
// Operations are started with the engine's lock held and complete by a callback with the lock held,
// in any goroutine that makes progress.
//
// Floor 6.
package repair
