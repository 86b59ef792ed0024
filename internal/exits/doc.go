// Package exits is where a process reads that another process of its machine
// has ended, and how, some 30 microseconds after the fact and whatever the
// memory and the threads that the dead leaves behind. The kernel writes it: BPF programs at
// fatal signals and at the exit of threads (package hook), loaded by somebody who may (ftbench run,
// ftbench agent). This package needs no privileges and no BPF library.
//
//	t, err := exits.Open() // the error says why there is none: do without
//	defer t.Close()
//	epoll: t.FD(), EPOLLIN|EPOLLET
//	if cause, ended := t.Ended(pid); ended { … }
//
// # What is shared
//
// Three to five descriptors, which are all that a reader gets and needs:
//
//	log    a BPF array of one value, frozen: nobody writes it but the BPF programs
//	       of its hook. It is mapped read-only.
//	bell   a BPF ring buffer. Each entry of the log puts a word there and wakes
//	       all who poll it. Nobody reads the words, so it stays readable: poll it
//	       edge-triggered.
//	links  keep the programs at their hooks while any process holds them. So the
//	       loader may die: what was registered is still recorded. One, and
//	       one more each where the kernel lets signals and calls of exec be seen.
//
// The log is a ring of the last [Entries] entries behind a header:
//
//	0    magic   uint64   a layout that this package knows
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
// The writer counts head up, clears seq, fills, and stores seq with an atomic
// exchange, which is a full barrier; the reader loads seq, copies and looks at
// seq again. Two writers meet in one entry only if Entries processes end while
// one program runs.
//
// A log and no table of processes, because pids are used again: registering is
// an entry too (Registered), so the newest entry of a pid says what is true of the
// registered process that had it last. Who registers does so before anybody learns
// of it. A process that nobody has registered may have the pid of one that has
// ended: Table.Watched says of which pids the log is to be believed.
//
// A reader that looks only after more than [Entries] entries have lost some. Then it
// does not hear of the ends that stood there, for which something else has to stand
// behind the log, and hears of no end that has not been.
//
// # What it means
//
// An end is recorded when it is decided: SIGKILL has been sent, a thread has
// called exit_group, a crash. The process cannot go back from there, but on
// another processor it may run for some microseconds more, and the kernel has still
// to take it apart. So an entry is evidence: fence the process (SIGKILL by
// pidfd) and take what it had published, before anything is made of it.
//
// A call of exec is recorded too, before the first thing of the old program is taken apart, and
// the process stays registered: a rank may be a script that ends with exec. So a reader compares
// two values of Table.Execs, one from when the process was known to be the program that it means.
// Of one process the first [MostExecs] calls are recorded.
//
// # Who is registered
//
// Only ends of registered processes are recorded. ftbench run registers the
// ranks that it starts, and passes the descriptors on by inheritance; where
// a shell stands between, so that the rank is not the process that was started,
// [Open] says so. With the agent ([Dial]) each process registers itself.
//
// Floor 0. Of Banyan's it imports proc alone.
package exits
