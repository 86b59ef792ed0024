// Package fabric is the contract between Banyan's engine and its transports: a [Provider] is one
// process's endpoint on one medium (shared memory, TCP, verbs, the simulator), a [Conn] its
// connection to one peer, a [Host] the clock and the scheduler of the process.
//
// # Promises of a provider
//
//  1. [Conn.TrySend] takes a small message (a frame) without blocking and without allocating, or
//     returns false: no credit. Then the caller makes progress and tries again. A provider never
//     queues without bound.
//  2. [Provider.Poll] passes arrived frames to the functions of a [Sink], in the order in which
//     their sender sent them. The payload is borrowed: it belongs to the provider again when the
//     function returns.
//  3. A frame arrives whole or not at all, also when its sender dies half-way.
//  4. Large messages move by [Conn.Get] where the medium supports it ([Caps.Get]); without it the
//     engine streams frames.
//  5. A peer's end is reported once, by Sink.Down or Sink.Departed, after everything that the peer
//     sent before has been delivered or is known lost. A provider never decides alone that a silent
//     peer is dead. A peer that lives is not reported dead for a shortage in this process
//     (descriptors, memory): the provider tries again, and if the shortage lasts, both sides report
//     the other down with cause proc.Unreachable and log the shortage; Connect returns it. An end
//     known from elsewhere ([Provider.Inform]) is reported like evidence of the provider's own. A
//     peer that refuses this process because it counts as dead there is reported down with cause
//     proc.Refused.
//  6. A process sleeps in exactly one place, [Host.Sleep]. A provider never blocks. After
//     [Host.Arm]
//     the engine calls [Provider.Ready] once more; later arrivals ring the host's bell.
//  7. A pair of processes is joined by one provider. If Connect returns [ErrNoPath], the peer's
//     Connect to this process returns it too, also if both call at the same time; so both sides may
//     try their next provider, and no pair has frames in flight on two. After any other error the
//     peer may still connect, and neither side may go on.
//  8. Data that a peer wrote are checked before they are used. A peer that writes invalid data is
//     reported down with cause proc.Corrupt; they never cause a panic, a fault or a wild read.
//
// # Departure, closing and death
//
//   - Frames accepted before [Provider.Depart] arrive, even if their sender has closed and ended
//     meanwhile; on a medium that leaves unread data with the sender (stream sockets), if the
//     receiver polls while Close waits for it. Of frames accepted before a Close without Depart, or
//     before a death, a prefix arrives.
//   - [Provider.Connect] to a process that has departed, closed or died returns [ErrPeerGone], or a
//     connection on which Departed or Down follows. A connection to a process that dies during the
//     call counts as either. ErrPeerGone is that process's end: nothing of it arrives afterwards,
//     so a provider that has frames from it returns the connection. For a process that was never
//     connected, Down with cause proc.Unknown means the same as ErrPeerGone.
//   - After Depart this process can send nothing more: TrySend returns false, Connect [ErrClosed].
//     Poll still delivers. Peers that connect learn of the departure, although this process polls
//     no more.
//   - After [Conn.Invalidate] no frame is delivered; the end of the peer may still be reported,
//     once.
//   - After [Provider.Close] TrySend returns false, Connect ErrClosed, Poll 0; Depart and a second
//     Close do nothing. A Get in progress returns; no other may be called. The host may outlive its
//     providers: Ring is harmless then.
//   - Exposed memory need not be revoked: the region is valid as long as the buffer is kept, and
//     the
//     provider's registration ends with the connection.
//
// # Concurrency
//
// One goroutine at a time calls a provider and its connections: the engine holds its lock.
// Exceptions are stated at the method: [Conn.Get] runs without the lock, [Host.Ring] may be called
// from any goroutine.
//
// A function of the [Sink] may call TrySend, Expose, Invalidate, Connect and Lookup. It may not
// call Poll, Depart or Close of the provider that called it.
//
// Floor 1. It imports package proc only.
package fabric
