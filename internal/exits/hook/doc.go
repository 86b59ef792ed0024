// Package hook loads the BPF programs that record the ends of registered
// processes, and registers processes. It is the privileged side of package
// exits, which has the layout of what they write and its readers.
//
//	h, err := hook.Open() // the error says what lacks
//	err = h.Register(pid) // before the process tells anybody that it exists
//	… give h.Files() to those who are to read
//	h.Forget(pid) // when it has ended
//
// # How an end is seen
//
// By programs at two tracepoints, entered with kernel types
// (tp_btf), so that fields are read by plain loads. They are C, exits.bpf.c, compiled by bpf2go into
// files that are committed: only a change of the programs needs clang. The loader takes the places of fields from
// the running kernel's BTF (CO-RE), so one binary serves all kernels. Both ask
// whether the exit of all threads of the process has been decided
// (SIGNAL_GROUP_EXIT), which the kernel never takes back:
//
//   - signal_generate, run by who sends a signal: one that is fatal to all threads, SIGKILL
//     above all, has decided by then. So kill(2) returns after the entry has been written.
//   - sched_process_exit, run by each thread that exits: the first one after
//     exit_group or a crash. Waiting for the last, which a process of many threads
//     needs a millisecond for on busy processors, is for older kernels,
//     which decide nothing where there is one thread.
//
// What is no end decides nothing: a thread that exits alone, exec by another thread than
// the first, a signal that is handled or ignored, SIGKILL to a thread that is gone or
// from within a pid namespace to its first process. While a core is dumped the
// other threads wait, and the end is told when that is done, or when somebody kills.
//
// A third one, at sched_prepare_exec (before Linux 6.10 at sched_process_exec), writes that the
// process has called exec; it stays registered.
//
// The programs return at once unless that is so and the process is
// registered: BenchmarkStranger says what they cost. Else they
// strike the process off, so that there is one entry and the next process with this pid is a
// stranger, write the entry and ring the bell.
//
// # What an entry proves
//
// That the process will run no more of its program but for what it can do before it is
// interrupted, which takes microseconds on another processor. It is evidence of
// the end, not the end: a system call under way is carried through as far as it does not wait,
// memory and descriptors are freed later. Who needs more than that nothing starts any more
// does what package fabric/shm does: kill it again by pidfd, which does not
// hurt, take what it has published, and look at its memory no more.
//
// Processes are registered by their pid in the loader's pid namespace. The
// program finds the same number at the same depth, in whatever namespace below
// the process lives, and records the pid by which it knows itself as well. Exec changes nothing of
// that, by any thread.
//
// A further program does the registering: a frozen log can only be written by
// programs. It is run with BPF_PROG_RUN.
//
// # Who may, and which kernel
//
// CAP_BPF and CAP_PERFMON (root has them), Linux 5.14 with BTF
// (CONFIG_DEBUG_INFO_BTF). Since 6.16 sched_process_exit lies before the process's
// memory is freed; before that the end of a single thread is seen later by some 20 microseconds
// for each resident megabyte. Where nothing can be attached to signal_generate, the rest does without,
// and [Available] says so. What the programs use exists since 5.14; they have been run on
// 6.18, also in the forms for kernels before 6.16 and without signals.
//
// # What outlives the loader
//
// The links, as long as any process holds their descriptors: readers get them with the
// others. Pinning in /sys/fs/bpf was weighed: it needs a mount that containers
// lack and leaves something behind when everybody dies.
//
// The bell is a ring buffer in which nobody reads, so it would fill, and a
// full one wakes nobody. Each word in it stands for a process that was registered,
// so Register makes room: what was rung is dropped where it fills more than a quarter
// of the buffer, and no more are registered at a time than fit in half of it.
//
// Its descriptor allows whoever has it to map the page with the reader's
// position, and so to silence the bell: readers of one hook trust each other,
// and an agent has a hook for each user. The log is safe from them.
//
// Floor 0. Only commands and tests import it: applications read, and do not
// bring a BPF library along.
package hook
