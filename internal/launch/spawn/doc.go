// Package spawn starts the ranks of a job on one machine: the descriptors of each process, its
// environment, its CPU, its output and input, its end.
//
// Each rank leads a process group of its own. An interrupt typed at the terminal therefore reaches
// the launcher alone, which forwards it exactly once, and the children of a rank can be ended with
// it. The price: a rank cannot read the terminal, so the launcher reads it for rank 0 while it is
// in the foreground.
//
// With [Abort] the kernel kills each rank when its parent dies, also by SIGKILL (PR_SET_PDEATHSIG,
// which follows the forking thread: one thread forks all ranks and lives until the job has ended).
// It reaches the process that was started; a program that runs as the child of a wrapping shell
// lives on.
//
// Floor 2: it imports internal/affinity, internal/exits, proc and launch/pmi.
package spawn
