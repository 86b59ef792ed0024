// Package tcp moves frames over stream sockets: TCP between machines, and
// Unix-domain sockets between processes of one machine that cannot share memory.
//
// # The connection
//
// A pair of processes has one connection, made at the first contact of either.
// When both dial at once the one dialled by the lower process id stays. It opens
// with a handshake in which each side proves that it knows the job's secret
// (HMAC-SHA256 over a nonce of either side and all that was said), and says its
// process id and how many frames of the other it has. What does not know the
// secret, speaks another version, means another process, or dawdles, is
// disconnected, counted ([Stats]) and logged once per kind; it costs a descriptor
// for a while, of which there are at most [maxGuests]. After the handshake nothing
// is signed: who can write into an established connection is not kept out.
//
// # A frame on the wire
//
//	0        4     5      6       8        12       16         24
//	| length | kind| flags|   0   | number | taken  | immediate | payload …
//
// The number counts the sender's frames, taken the receiver's: how many frames
// of the other direction have been taken in. Both count modulo 2^32.
//
// # Healing
//
// A sender keeps its frames until the other side has taken them: short ones in
// the outbox, a ring; long ones where they are ([Conn.TryLend]). A connection that breaks
// is made again by whoever notices, and what had not been taken is sent again, so
// nothing is lost or doubled. Frames taken in a moment ago are said with the next
// frame to the other side, or, if none goes, by one that says nothing else.
//
// What is no healing: the peer's port refuses connections, so nobody listens there
// any more: the process has ended; or no connection could be made for
// [Config].Heal. Then the peer is reported down. While the machine of the peer takes
// connections a silent peer is not: that it computes, or is stopped, is for others
// to judge. What the kernel knows of a connection, as evidence for them, says
// [Conn.Health].
//
// A process that has no descriptor left for a peer is not silent: it keeps one in
// reserve, to hear who calls and to say so. Both go on trying, and after [Config].Heal
// both report the other unreachable.
//
// After Depart, Close waits until what was sent has reached the other machine, up to
// [Config].Linger for a peer that does not read. Of what is still here then the peer may
// lose a part: the first thing that it says to the closed socket takes it back.
//
// # Polling and sleeping
//
// While the engine spins, Poll reads the connection that was last heard of,
// without waiting, and asks epoll for all others every few rounds. Before it sleeps,
// the set of descriptors is given to one goroutine that rings the bell when
// something comes. These calls are made with the engine's lock held: they do not
// wait.
//
// Large payloads are read straight to where the engine wants them
// ([fabric.Sink].Place) and written from where they are.
//
// Floor 2. It starts one goroutine while it is open, and one between Depart and
// Close: like all providers of real processes it is exempt from the rule that time
// and goroutines come from a Host.
package tcp
