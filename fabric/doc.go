// Package fabric is the contract between Banyan's engine and what moves its
// bytes: a [Provider] is one process's endpoint on one medium (shared memory,
// TCP, verbs, the simulator), a [Conn] its connection to one peer, a [Host] the
// clock and the scheduler under both.
//
// # What a provider promises
//
//  1. [Conn.TrySend] takes a small message (a frame) without blocking and
//     without allocating, or answers false: no credit. Then the caller makes
//     progress and tries again. A provider never queues without bound.
//  2. [Provider.Poll] hands arrived frames to the functions of a [Sink], in the
//     order in which their sender sent them. The payload is borrowed: it is the
//     provider's memory again when the function returns.
//  3. A frame arrives whole or not at all, also when its sender dies half-way.
//  4. Large messages move by [Conn.Get] where the medium can ([Caps.Get]); a
//     provider without it says so and the engine streams frames.
//  5. Evidence of a peer's end is reported once, by Sink.Down or
//     Sink.Departed, after everything that the peer sent before has been
//     delivered or is known lost. A provider never decides alone that a silent
//     peer is dead. A peer that lives is not reported for want of this
//     process's means (descriptors, memory): the provider tries again, and if
//     that lasts both sides report the other down with cause proc.Unreachable
//     and log what is missing; Connect answers it. Word of an end from elsewhere
//     ([Provider.Inform]) is reported like evidence of the provider's own. A peer that
//     refuses this process because it counts as dead there is reported down
//     with cause proc.Expelled.
//  6. A process sleeps in exactly one place, [Host.Sleep]. A provider never
//     blocks. After [Host.Arm] the engine asks [Provider.Ready] once more;
//     whatever arrives later rings the host's bell.
//  7. A pair of processes is joined by one provider. Where Connect answers
//     [ErrNoPath] the peer's Connect to this process answers it too, also if both
//     call at the same time; so both sides may go on to their next provider, and
//     no pair has frames under way on two. Any other error leaves it open whether
//     the peer can connect, and nobody may go on.
//  8. What a peer wrote is checked before it is used. A peer that writes
//     nonsense is reported down with cause proc.Corrupt; it is never a panic,
//     a fault or a wild read.
//
// # Ends
//
// Departing, closing and dying meet everything else; these are the rules.
//
//   - Frames taken before [Provider.Depart] arrive, though their sender may have
//     closed and ended meanwhile; where a medium leaves what nobody reads with its
//     sender (stream sockets), if the receiver polls while Close waits for it. Of frames taken before a Close without Depart,
//     or a death, a leading part arrives.
//   - [Provider.Connect] to a process that has departed, closed or died answers
//     [ErrPeerGone], or gives a connection on which Departed or Down follows. A
//     connection to a process that dies during the call counts as either.
//     ErrPeerGone is that process's end: nothing of it comes afterwards, so who
//     has frames from it gives the connection. Down with cause proc.Unknown, for a
//     process that was never met, says no more than ErrPeerGone does.
//   - After Depart this process can send nothing more: TrySend answers false,
//     Connect [ErrClosed]. Poll still delivers. Peers that connect learn of the
//     departure, though this process polls no more.
//   - After [Conn.Invalidate] no frame is delivered; the end of the peer may
//     still be reported, once.
//   - After [Provider.Close] nothing is there any more: TrySend answers false,
//     Connect ErrClosed, Poll 0; Depart and a second Close do nothing. A Get that
//     is under way returns; no other may be called.
//     The host may outlive its providers: Ring is then harmless.
//   - Whoever has exposed memory need not take it back: the region is valid as
//     long as the buffer is kept, and whatever a provider registered for it
//     ends with the connection.
//
// # Concurrency
//
// One goroutine at a time calls a provider and its connections: the engine
// holds its lock. Exceptions are stated at the method: [Conn.Get] runs
// without the lock, [Host.Ring] may be called from anywhere.
//
// A function of the [Sink] may call TrySend, Expose, Invalidate, Connect and
// Lookup. It may not call Poll, Depart or Close of the provider that called it.
//
// # What is not here yet
//
// Remote writes, atomics and notification, registration of device memory, several
// rails, and a Get that completes later: without [Caps].GetBlocks, [Caps].Get is
// false in every provider of this version, and Put in all. Their places in the
// types exist so that adding them changes no provider: [Rail] in
// [ConnectSpec], [MemKind] in [Region], [Caps]; what completes later will be
// reported by a function of the Sink, like all else that Poll finds.
//
// Floor 1. It imports package proc only.
package fabric
