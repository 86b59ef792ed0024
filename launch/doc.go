// Package launch says who this process is in its job and who its peers are
// ([Join]), and starts jobs on this machine ([Run]).
//
// # The side of a rank
//
// [Join] reads the environment. Under a launcher that speaks PMI-1 on an
// inherited descriptor (Banyan's own, Hydra's mpiexec, Slurm's srun
// --mpi=pmi2) the process is one rank of the job; without one it is alone, a
// world of one. Ranks find each other through small published values:
//
//	job, err := launch.Join(ctx)
//	err = job.Put(ctx, "address", myAddress)
//	err = job.Fence(ctx)                     // *MissingError names who is not there
//	addr, err := job.Get(ctx, peer, "address")
//	…
//	err = job.Finalize(ctx)
//
// The launcher is needed for these calls and for nothing else. When it dies
// the job goes on: a call that needs it fails with [ErrLauncherGone], and a
// rank that prints to the broken standard output is not killed (see [Join]).
//
// # The side of the launcher
//
// [Run] starts the ranks of one job, serves PMI-1 to them, binds them to
// cores, forwards their output and signals, and reports how each ended. It
// never ends the others because one died, unless asked to ([Abort]).
//
// Each rank leads a process group of its own. So an interrupt typed at the
// terminal reaches the launcher alone, which forwards it exactly once, and what
// a rank starts (a shell's children) can be ended with it. The price: a rank
// cannot read the terminal itself, so the launcher reads it for rank 0.
//
// With [Abort] the kernel kills each rank when the launcher dies, also by
// SIGKILL (PR_SET_PDEATHSIG, which follows the forking thread: one thread forks
// all ranks and lives until the job has ended). It reaches the process that was
// started; a program that runs as the child of a wrapping shell lives on.
//
// # What this package does not do
//
// It starts nothing on other machines, starts no replacements for dead ranks,
// does not speak PMI-2 or PMIx, does not read RANK/WORLD_SIZE (it refuses to
// run alone where they are set), and is no failure detector: that a rank died
// is the business of package ft/detect, with or without a launcher.
//
// Floor 2: it may import floors 0 and 1 and stands beside the providers. It
// imports internal/affinity and proc.
package launch
