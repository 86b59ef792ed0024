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
// A program at the tracepoint sched_process_exit, entered with kernel types
// (tp_btf), so that fields are read by plain loads whose places come from the running
// kernel's BTF: no C compiler, no headers, one binary for all kernels. It returns
// at once unless the last thread of a process ends and the process is
// registered: some 300 ns for an end of somebody else (BenchmarkStranger). Then it
// strikes the process off, so that the next one with this pid is a stranger, writes
// an entry and rings the bell.
//
// Processes are registered by their pid in the loader's pid namespace. The
// program finds the same number at the same depth, in whatever namespace below
// the process lives, and records the pid by which it knows itself as well. Exec
// changes nothing, of any thread.
//
// A second program does the registering: a frozen log can only be written by
// programs. It is run with BPF_PROG_RUN.
//
// # Who may, and which kernel
//
// CAP_BPF and CAP_PERFMON (root has them), Linux 5.14 with BTF
// (CONFIG_DEBUG_INFO_BTF). Since 6.16 the tracepoint lies before the process's
// memory is freed; before that an end is seen later by some 20 microseconds for each
// resident megabyte. What the programs use exists since 5.14; they have been run on
// 6.18, also in the form for kernels before 6.16.
//
// # What outlives the loader
//
// The link, as long as any process holds its descriptor: readers get it with the
// others. Pinning in /sys/fs/bpf was weighed: it needs a mount that containers
// lack and leaves something behind when everybody dies.
//
// The bell is a ring buffer in which nobody reads, so it would fill, and a
// full one wakes nobody. Each word in it stands for a process that was registered,
// so Register makes room: what was rung is dropped while it fills more than half
// of the buffer, and no more are registered at a time than fit in the other.
//
// Its descriptor allows whoever has it to map the page with the reader's
// position, and so to silence the bell: readers of one hook trust each other,
// and an agent has a hook for each user. The log is safe from them.
//
// Floor 0. Only commands and tests import it: applications read, and do not
// bring a BPF library along.
package hook
