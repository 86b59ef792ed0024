// Package p2p is point-to-point messaging: communicators' cores, matching,
// the eager and rendezvous protocols, requests, and the two checks that make
// them fault aware.
//
// # Protocols
//
// A message that fits into one frame is sent eagerly in it. A longer one up to
// the eager limit of the connection travels eagerly in fragments, which the
// receiver copies while the sender fills the next: First announces, Frag
// follows. Above the limit the sender asks (RTS) and the receiver, once
// matched, either pulls the data in one copy and says so (Fin) or, where the
// medium has no Get, lets the sender stream them (CTS, then Frag). A synchronous
// send takes this way at every length: the answer says that it was matched.
//
// # Matching
//
// On (source process, context, tag), in MPI's order: messages between two
// processes in one context match in the order in which they were sent,
// receives in the order in which they were posted. Posted receives and
// unexpected messages lie in hashed bins, so matching does not depend on how
// many there are; wildcards have bins of their own and a sequence number
// decides between them.
//
// # Flow control
//
// What a receiver keeps of messages that it has not received yet is bounded per
// sender: past the bound a sender announces messages of every length, and past
// a number of unanswered announcements it keeps its sends in line (flow.go).
//
// # Failure
//
// At the top of an operation the communicator's state word is loaded once and
// compared; only a mismatch (revoked, a failure that the application has not
// acknowledged) leaves the fast path. At the bottom, when a peer's death
// becomes known, everything that depends on it completes with an error, once, but
// wildcard receives, which it may not have been meant for: they are pending until
// the application acknowledges the failure (pending.go, acknowledge.go). In run-through stabilization, of
// a collective's messages those to the living complete too, and what has been
// announced to them is withdrawn (withdraw.go). In ULFM they go on until the peer says that it has given up (giveup.go).
// The unaware engine is the same source with the first check removed by the
// compiler ([Mode]) and the second not registered; it is the baseline that the
// cost of fault awareness is measured against.
//
// # Concurrency
//
// Any goroutine may call. The engine's lock (package progress) guards all of
// the package's state.
//
// Floor 4.
package p2p
