// Package tcp moves frames over stream sockets: TCP between machines, and Unix-domain sockets between
// processes of one machine that cannot share memory.
//
// # The connection
//
// A pair of processes has one connection, made at the first contact of either. If both dial at once,
// the one dialled by the lower process id stays; a process that is answering a call does not call the
// same peer. Connect only starts a call, so calls to many peers are under way at a time. A connection
// starts with a handshake in which each side proves that it has the job's secret (HMAC-SHA256 over a
// nonce of either side and all messages so far), and sends its process id and the number of frames
// that it has received. A connection without the secret, with another version, for another process,
// or with a handshake that takes too long is closed, counted ([Stats]) and logged once per kind; it
// costs a descriptor for a while, of which there are at most [maxHandshakes]. After the handshake
// nothing is signed: an attacker that can write into an established connection is not kept out.
//
// # A frame on the wire
//
//	0        4     5      6       8        12       16         24
//	| length | kind| flags|   0   | number | taken  | immediate | payload …
//
// The number counts the sender's frames, taken is the acknowledgement: the number of frames received
// in the other direction. Both count modulo 2^32.
//
// # Reconnecting
//
// A sender keeps its frames until the other side has acknowledged them: short ones in the outbox, a
// ring; long ones in place ([Conn.TryLend]). Either side makes a broken connection again when it
// notices, and unacknowledged frames are sent again, so nothing is lost or duplicated.
// Acknowledgements travel with the next frame, or, without one, in a frame of their own.
//
// Two cases end the attempts. The peer's port refuses connections: no process listens there any more,
// so the peer has ended. Or no connection could be made for [Config].Heal. Then the peer is reported
// down. A silent peer whose machine accepts connections is not reported: the failure detector decides
// whether it computes or is stopped.
//
// A process without a free descriptor for a peer is not silent: it keeps one in reserve, to accept
// the call and to send the reason. Both sides keep trying, and after [Config].Heal both report the
// other unreachable.
//
// After Depart, Close waits until all data have reached the other machine, up to [Config].Linger for
// a peer that does not read. The peer may lose a part of the data that are still here then: the first
// frame that it sends to the closed socket resets it.
//
// # Bursts
//
// Of several short frames to one peer, with no other call in between, the first is written at once
// and the others in one write: by the next call, or by a goroutine if the process computes. See
// burst.go.
//
// # Memory
//
// A connection takes the memory that its messages need: its outbox grows up to [Config].Outbox and
// shrinks when it has not been used for a while, and all connections read into one buffer. See
// memory.go.
//
// # Polling and sleeping
//
// While the engine spins, Poll reads the connection that delivered last, without waiting, and asks
// epoll for all others every few rounds. Before a sleep, one goroutine watches the set of descriptors
// and rings the bell when something arrives. These calls are made with the engine's lock held: they
// do not wait.
//
// Large payloads are read directly to the engine's buffer ([fabric.Sink].Place) and written from
// their place.
//
// Floor 2. It starts two goroutines while it is open, and one between Depart and Close: like all
// providers of real processes it is exempt from the rule that time and goroutines come from a Host.
package tcp
