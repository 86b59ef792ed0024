// Package exits reports to a process that another process of its machine has ended, and how, some
// 30 microseconds after the fact, for any memory and threads that the dead process leaves. The
// kernel writes the record: BPF programs at fatal signals and at the exit of threads (package
// hook), loaded by a privileged process (ftbench run, ftbench agent). This package needs no
// privileges and no BPF library.
//
//	t, err := exits.Open() // the error contains the reason: continue without a table
//	defer t.Close()
//	epoll: t.FD(), EPOLLIN|EPOLLET
//	if cause, ended := t.Ended(pid); ended { … }
//
// # Shared descriptors
//
// Three to five descriptors, which are all that a reader gets and needs:
//
//	log    a BPF array of one value, frozen: only the BPF programs of its hook
//	       write it. It is mapped read-only, in parts as they are read.
//	bell   a BPF ring buffer. Each entry of the log puts a word there and wakes
//	       all pollers. The words are never read, so it stays readable: poll it
//	       edge-triggered.
//	links  keep the programs at their hooks while any process holds them. So the
//	       loader may die: registered processes are still recorded. One, and
//	       one more each if the kernel lets signals and calls of exec be seen.
//
// The log is a ring of the last [Entries] entries after a header:
//
//	0    magic   uint64   a layout that this package supports
//	8    space   uint32   pid namespace of the loader (inode)
//	64   head    uint64   entries written so far, counted before they are filled
//	128  entry 0
//	160  entry 1 …        entry i of the count lies at i mod Entries
//
//	entry:  0 seq uint64       i+1, stored last; 0 while it is filled
//	        8 pid uint32       in the loader's pid namespace
//	       12 inner uint32     in the namespace of the process itself
//	       16 space uint32     that namespace
//	       20 status int32     as of wait(2), or Registered, Replaced, Unknown
//	       24 time uint64      CLOCK_MONOTONIC, ns
//
// The writer increments head, clears seq, fills, and stores seq with an atomic exchange, which is a
// full barrier; the reader loads seq, copies and checks seq again. Two writers use one entry at
// once only if Entries processes end while one program runs.
//
// It is a log and no table of processes, because pids are used again: registering is an entry too
// (Registered), so the newest entry of a pid describes the last registered process with it. A
// process must be registered before its existence is known to others. An unregistered process may
// have the pid of one that has ended: Table.Watched reports whether the log applies to a pid.
//
// A reader that polls only after more than [Entries] entries have lost some. Then it misses the
// ends in them, so other means of detection must back up the log. It never reads of an end that has
// not happened.
//
// # The meaning of an entry
//
// An end is recorded when it is decided: SIGKILL has been sent, a thread has called exit_group, a
// crash. The process cannot continue from there, but on another processor it may run for some
// microseconds more, and the kernel has still to free its resources. So an entry is evidence:
// before acting on it, fence the process (SIGKILL by pidfd) and receive the frames that it had
// published.
//
// A call of exec is recorded too, before the first part of the old program is freed, and the
// process stays registered: a rank may be a script that ends with exec. So a reader compares two
// values of Table.Execs, one from the time when the process was known to run the right program. The
// first [MostExecs] calls of a process are recorded.
//
// # Registration
//
// Only ends of registered processes are recorded. ftbench run registers the ranks that it starts,
// and passes the descriptors on by inheritance. If a shell stands between, so that the rank is not
// the process that was started, [Open] reports that. With the agent ([Dial]) each process registers
// itself.
//
// Floor 0. Of Banyan's packages it imports proc alone.
package exits
