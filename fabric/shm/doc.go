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
// The end of the header's page are robust words, one for each process id, or one for
// several where there are more than 256. They are on the robust list of a thread that
// lives as long as the endpoint (package internal/robust): when the process dies,
// the kernel marks them and wakes who waits, before it frees the process's memory. A
// watcher waits at the peers' words, up to 127 to a thread, at what Config.Exits
// tells, and at the peers' pidfds: these tell of every end, but late by about
// 20 µs per resident megabyte, and are the backstop where the kernel, a seccomp
// profile or a word that somebody overwrote keep the others from telling. Detection
// says what a machine has.
//
// The watcher may have to wait for the core on which the process polls. So a process that polls calls PollDeaths, which
// loads the number of entries of Config.Exits and the word of one peer, of each in its turn. Nobody sleeps at the word of a
// peer of whose end Config.Exits tells.
//
// Evidence is made true before it is reported: the peer is killed through its
// pidfd, by the watcher or, where the kernel's record told, by the Poll that reports it; one that has ended does not mind. That ends also what a peer has
// become by exec. Then what it had published is delivered, also by a peer that
// this process had not heard of when it died, and then its end, with the exit code or
// the signal if the kernel has told it by then: nothing is held back for that.
// A peer that closes its endpoint without departing is reported as failed, and not
// killed: it has taken back its words, and can send nothing.
//
// Inform takes word of a death from elsewhere, with the same consequences.
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
// A peer that scribbles over the robust words of another one can make its death
// known later, and no sooner: a mark is believed after the kernel has confirmed that the
// thread is gone.
//
// Floor 2. The watchers are goroutines of their own; they fence the peer where a word told, set a flag
// and ring the bell. A thread does nothing but hold the words.
package shm
