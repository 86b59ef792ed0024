// Package shm is the fabric provider for processes that share a machine.
//
// # Memory
//
// Each process owns one memfd segment, which is sealed: its size is fixed. Peers take
// its descriptor through a pidfd, or open it by its name in /proc, so that a crash leaves nothing in
// /dev/shm. It holds the process's bell, the state of the endpoint, a bitmap of announcements, and for
// each process id a page and a long ring, into which that process writes its frames for this one:
//
//	+--------+---------+--------+--------+---+--------+--------+---+--------+
//	| header | bitmap  | page 0 | page 1 | … | ring 0 | ring 1 | … | boards |
//	+--------+---------+--------+--------+---+--------+--------+---+--------+
//	                   /          \         /           \
//	  +-----------------+----------+       +----------------------------+----------------+
//	  | address, cursors| short    |       | lines: word imm 48 bytes … | bulk: payloads |
//	  |                 | ring     |       +----------------------------+----------------+
//	  +-----------------+----------+
//
// Where the launcher has made memory for all processes of the machine (package nodemem), the part before
// ring 0 lies in places of that, and each process maps all of it. A first contact then takes no descriptor
// of the peer and no mapping; the rest of the segment is mapped when it is needed. The headers of all processes
// lie beside each other there, and a read fault maps those of 16. Two processes share each page of their second part,
// a half for each, so a process that writes to all others maps a page for two of them. The header has room for the
// card of its process, which the others would ask the launcher for.
//
// The segment is sparse: memory grows with traffic. A page gets memory when its process connects. A
// pair with more to send than the occasional small frame moves to its long ring, which gets some
// memory first. It uses the first 32 KiB for payloads again and again until frames do not fit, or come fast, and becomes
// wide then, by a line of class move; see earn.go for the share of each process and for the way back. Memory is given
// after a check of the limits, because taking more than a memory cgroup's limit ends in the OOM killer and not in an error. A line of class move says that the next
// frame is in the other ring, so the order of frames is that of the pair.
//
// # Frames
//
// A ring has a single producer, a single consumer, and cache lines. A frame is one line: a word with
// lap number, class and length, the immediate, and up to 48 bytes of payload, so that a small
// message costs one line of traffic. A longer payload lies in the bulk ring and the line announces
// it. Storing the word publishes the frame: a producer that dies before has sent nothing. The lap
// number distinguishes a fresh line from a stale one, so neither side clears anything, and the
// cursors are read only when credit has run out.
//
// Longer payloads lie in a ring of their own and not in the following lines, because there they
// would overwrite the words and could be mistaken for fresh ones a lap later; clearing them would
// cost the consumer a dirty line each.
//
// # Quiet peers
//
// Poll reads the rings that have delivered lately. A ring that has not is marked; its producer sees the
// mark with its next frame and sets its bit in the bitmap. So the cost of a poll does not depend on the
// number of connected peers; see quiet.go.
//
// # Large messages
//
// Get is a single kernel copy (process_vm_readv). The right to take the descriptor of the peer's segment
// is the right to read its memory; where none is taken a copy is tried when the connection is made.
// Where the kernel refuses it, Caps.Get is false and the engine streams frames through the ring, a pipelined
// double copy. A sender that waits for the copy of a long message makes parts of it itself, by process_vm_writev or into a
// block (split.go).
//
// # Death
//
// The header's page ends with robust words, one for each process id, or one for several if there
// are more than 256. They are on the robust list of a thread that lives as long as the endpoint
// (package internal/robust): when the process dies, the kernel marks them and wakes the waiters,
// before it frees the process's memory. A watcher waits at the peers' words, up to 127 per thread,
// at Config.Exits, and at the peers' pidfds. Pidfds report every end, but late, by about 20 µs per
// resident megabyte; they are the backstop where the kernel, a seccomp profile or an overwritten
// word disable the others; that of a peer whose end Config.Exits reports is watched from a second after the
// first contact on, and where the peer's header lies in the memory of the node it is opened no sooner, unless
// it is needed. The word, or the time of the start, shows then that the pid is still the peer's. Detection returns the means that a machine has.
//
// The watcher may have to wait for the core on which the process polls. So a process that polls
// calls PollDeaths, which loads the number of entries of Config.Exits and the word of one peer, in
// turn. No thread sleeps at the word of a peer whose end Config.Exits reports.
//
// A death is reported when the kernel has ended the thread that holds the words, or has put the end on
// record: it ends the other threads of the program with it. First everything that the peer had
// published is delivered, even if this process had not seen its knock when it died, and then its
// end, with the exit code or the signal if the kernel has it by then: the report does not wait for
// that, and ExitCause asks again. Before that question the peer is killed through its pidfd, which ends another program
// that it has become by exec. In a process that polls both follow the report (SetPolling). A peer that closes its
// endpoint without departing is reported as failed, and not killed: it has released its words, and can send nothing.
//
// Inform reports a death from elsewhere, with the same consequences.
//
// # Departure
//
// Depart and Close send a last line on every connection, and set the state in the header for later
// newcomers: these learn of it at once, although the other end does not poll.
//
// # Shortage of descriptors or memory
//
// Connecting back to a newcomer takes a descriptor and memory, and may fail. The newcomer is alive
// nevertheless: its frames are delivered, nothing can be sent to it yet, and the attempt is
// repeated for half a minute while Connect returns the error and its remedy. Then both sides report
// proc.Unreachable. Each side of a half-open pair checks it in Poll, for which a timer rings: after
// 10 ms first, then up to twice a second.
//
// # Trust
//
// Everything a peer can write is checked on each read, and read once. A slot with invalid contents
// is cut off and its process reported down with cause proc.Corrupt. Processes of one job run as one
// user: this protects against faults, not against a malicious peer, which could send valid
// nonsense.
//
// A peer that overwrites the robust words of another can delay the detection of its death, and
// cannot fake one: a mark counts after the kernel has confirmed that the thread is gone.
//
// Floor 2. The watchers are goroutines of their own; after evidence by a word they kill the peer and ask how it has
// ended, then they set a flag and ring the bell. A thread only holds the words.
package shm
