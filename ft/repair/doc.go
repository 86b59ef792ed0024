// Package repair has what an application calls after a failure: agree and shrink, of ULFM, and validate,
// of run-through stabilization, made of one agreement each (package ft/agree) and the communicators of package p2p.
//
// # One agreement for everything
//
// A communicator has one line of agreements, numbered in the order in which its members call. Shrink
// is the agreement on who has failed and nothing else: the context of the new communicator follows from the
// old one's, the agreement's number and the dead, so no second round is needed to
// find one. The operations that meet in an agreement tell each other what they are, so
// ranks that call different ones get an error instead of each other's values.
//
// Validate is the same agreement as shrink; what has been agreed on is taken over by the communicator itself
// (p2p.Validation). Several communicators with the same members share one, on the line of the one with the lowest
// context, and tell each other which communicators they mean.
//
// Operations that are to end alike at all members, as collectives and the making of communicators on request, end with such an agreement as well: see
// [Repair.End].
//
// Nothing here looks at the state of the communicator: agreement frames bypass matching, so agree and shrink
// work where it has been revoked (S1-29, S1-41).
//
// # Members that cannot reach each other
//
// Of two the one with the higher id ends before it takes part: see [Repair.Apart].
//
// # After the call
//
// Who has a decision keeps it, and answers whoever still asks for it: in whatever goroutine makes progress, at the
// latest that of the detector's pulse. A line of agreements outlives its communicator's Free, as others may have its
// last decision to get, until a thousand further ones have been freed.
//
// # Concurrency
//
// Operations are begun with the engine's lock held and complete by a callback with the lock held, in
// whatever goroutine makes progress.
//
// Floor 6.
package repair
