// Package p2p is point-to-point messaging: communicators, matching, the eager and rendezvous
// protocols, requests, and the two checks that make them fault aware.
//
// # Protocols
//
// A message that fits into one frame is sent eagerly in it. A longer one up to the connection's
// eager limit is sent eagerly in fragments, which the receiver copies while the sender writes the
// next: First announces it, Frag follows. Above the limit the sender sends a request to send (RTS).
// The receiver, once matched, either pulls the data in one copy, or has its adapter read them, and confirms (Fin) or, on a medium
// without Get, asks for a stream (CTS, then Frag). A synchronous send of any length uses the
// rendezvous, whose answer reports the match. A sender that waits copies parts of a long message
// (split.go).
//
// # Matching
//
// Messages match by source process, context and tag, in MPI's order: messages between two processes
// in one context match in the order in which they were sent, receives in the order in which they
// were posted. Posted receives and unexpected messages are in hashed bins, so the cost of matching
// does not depend on their number. Wildcards have bins of their own, and sequence numbers decide
// between them.
//
// # Flow control
//
// The unexpected messages that a receiver keeps are bounded per sender. Past the bound a sender
// announces messages of any length, and past a number of unanswered announcements it holds its
// sends (flow.go).
//
// # Failure
//
// At the start of an operation the communicator's state word is loaded once and compared. Only a
// revocation or an unacknowledged failure leaves the fast path. When a peer's failure becomes
// known, every operation that depends on it completes with an error, once. Wildcard receives may
// depend on another peer: they are pending until the application acknowledges the failure
// (pending.go, acknowledge.go). In a collective, run-through stabilization also ends the messages
// between living ranks and withdraws announced ones (withdraw.go); under ULFM these continue until
// the peer reports that it has given up (giveup.go).
//
// The unaware engine is the same source with the first check removed by the compiler ([Mode]) and
// the second one not registered. It is the baseline for the cost of fault awareness.
//
// # Concurrency
//
// Any goroutine may call. The engine's lock (package progress) guards all of the package's state.
//
// Floor 4.
package p2p
