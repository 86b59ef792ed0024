// Package shm is the fabric provider for processes that share a machine.
//
// # Memory
//
// Each process owns one sealed memfd segment, which only it can resize, and
// nobody, once sealed. Peers map it through /proc/PID/fd, so nothing survives
// a crash in /dev/shm. It holds the process's doorbell, a word on what has become
// of the endpoint, a bitmap in which newcomers knock, and one slot per process
// id for what that process sends here:
//
//	+--------+---------+--------+--------+----
//	| header | knocks  | slot 0 | slot 1 | …      slot i is written by process i
//	+--------+---------+--------+--------+----
//	                   /          \
//	  +-----------------+----------------------------+--------------------+
//	  | address, cursors| lines: word imm 48 bytes | … | bulk: payloads   |
//	  +-----------------+----------------------------+--------------------+
//
// The segment is sparse. A slot takes memory when its process connects, with
// fallocate and after a look at the limits, because beyond a memory cgroup's
// limit fallocate ends in the OOM killer and not in an error.
//
// # Frames
//
// A slot is a single-producer single-consumer ring of cache lines. A frame is
// one line: a word with lap number, class and length, the immediate, and up to
// 48 bytes of payload, so that a small message costs one line of traffic. A
// longer payload lies in the bulk ring and the line announces it. Storing the
// word publishes the frame: a producer that dies before has sent nothing. The
// lap number in the word tells a fresh line from a stale one, so neither side
// clears anything and the cursors are read only when credit has run out.
//
// Longer payloads lie in a ring of their own and not in the following lines,
// because there they would overwrite the words and could be mistaken for fresh
// ones a lap later; clearing them costs the consumer a dirty line each.
//
// # Large messages
//
// Get is a single kernel copy (process_vm_readv), probed when the connection
// is made. Where the kernel refuses it Caps.Get is false and the engine streams
// frames through the ring, which is the pipelined double copy.
//
// # Death
//
// A pidfd per peer tells of its end: certain, but late by about 20 µs per
// resident megabyte. It is the backstop under the detectors of package
// ft/detect. What a peer had published is delivered before its end is, also by a
// peer that this process had not heard of when it died.
//
// # Departure
//
// Departing and closing send a last line to every connection, and leave a word in
// the header for who knocks afterwards: that process learns of it at once, with
// nobody polling at the other end.
//
// # Want
//
// Connecting back to a newcomer takes a descriptor and memory, and may fail. The
// newcomer is no less alive for that: it is heard, nothing can be sent to it
// yet, and the attempt is repeated for half a minute while Connect answers with
// the cause and its cure. Then both sides report proc.Unreachable. Each side of
// an incomplete pair looks after it in Poll, for which a timer rings: after 10
// ms first, then up to twice a second.
//
// # Trust
//
// Everything a peer can write is checked on each read, and read once. A slot
// that holds nonsense is cut off and its process reported down with cause
// proc.Corrupt. Processes of one job run as one user: this protects against
// faults, not against a malicious peer, which could send valid nonsense.
//
// Floor 2. The pidfd watcher is a goroutine of its own; it only sets a flag
// and rings the bell.
package shm
