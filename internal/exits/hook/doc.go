// Package hook loads the BPF programs that record the ends of registered processes, and registers processes. It
// is the privileged side of package exits, which has the layout of the record and its readers.
//
//	h, err := hook.Open() // the error names the missing privilege or feature
//	err = h.Register(pid) // before the process makes itself known to others
//	… pass h.Files() to the readers
//	h.Forget(pid) // when it has ended
//
// # How an end is seen
//
// By programs at two tracepoints, entered with kernel types (tp_btf), so that fields are read by plain loads.
// They are C, exits.bpf.c, compiled by bpf2go into files that are committed: only a change of the programs needs
// clang. The loader takes the offsets of fields from the running kernel's BTF (CO-RE), so one binary serves all
// kernels. Both check whether the exit of all threads of the process has been decided (SIGNAL_GROUP_EXIT), which
// the kernel never revokes:
//
//   - signal_generate, run by the sender of a signal: a signal that is fatal to all threads, SIGKILL
//     above all, has decided by then. So kill(2) returns after the entry has been written.
//   - sched_process_exit, run by each thread that exits: the first one after
//     exit_group or a crash. Older kernels decide nothing for a process of one thread. There the program
//     waits for the last thread; in a process of many threads on busy processors that takes a millisecond.
//
// Other events decide nothing: a thread that exits alone, exec by another thread than the first, a signal that is
// handled or ignored, SIGKILL to a thread that has ended or from within a pid namespace to its first process.
// While a core is dumped the other threads wait, and the end is recorded after that, or after a SIGKILL.
//
// A third one, at sched_prepare_exec (before Linux 6.10 at sched_process_exec), writes that the process has
// called exec; it stays registered.
//
// The programs return at once unless that is so and the process is registered: BenchmarkStranger measures their
// cost. Otherwise they remove the process, so that there is one entry and the next process with this pid is
// unregistered, write the entry and ring the bell.
//
// # The meaning of an entry
//
// The process will run no more of its program, except until it is interrupted, which takes microseconds on
// another processor. The entry is evidence of the end, not the end: a system call under way continues as far as
// it does not wait, and memory and descriptors are freed later. A reader that needs more than that acts as
// package fabric/shm does: it kills the process again by pidfd, which is harmless, receives the published frames,
// and does not read its memory any more.
//
// Processes are registered by their pid in the loader's pid namespace. The program finds the same number at the
// same depth, also if the process lives in a namespace below, and records the pid in the process's own namespace
// as well. Exec by any thread changes none of that.
//
// A further program does the registering: a frozen log can only be written by programs. It is run with
// BPF_PROG_RUN.
//
// # Privileges and kernels
//
// CAP_BPF and CAP_PERFMON (root has them), Linux 5.14 with BTF (CONFIG_DEBUG_INFO_BTF). Since 6.16
// sched_process_exit lies before the process's memory is freed; before that the end of a single thread is seen
// later by some 20 microseconds for each resident megabyte. If nothing can be attached to signal_generate, the
// hook does without, and [Available] reports that. The features that the programs use exist since 5.14; they have
// been run on
// 6.18, also in the forms for kernels before 6.16 and without signals.
//
// # After the loader's end
//
// The links stay, as long as any process holds their descriptors: readers get them with the others. Pinning in
// /sys/fs/bpf was rejected: it needs a mount that containers lack, and leaves files behind when all processes
// die.
//
// The bell is a ring buffer that no process reads, so it would fill, and a full one wakes no process. Each word
// in it stands for a registered process, so Register makes room: it drops the words if they fill more than a
// quarter of the buffer, and registers no more processes at a time than fit in half of it.
//
// Any process with its descriptor may map the page with the reader's position, and so silence the bell. So
// readers of one hook trust each other, and an agent has a hook for each user. They cannot change the log.
//
// Floor 0. Only commands and tests import it: applications only read, and do not link a BPF library.
package hook
