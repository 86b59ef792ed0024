// Package join finds out which rank of which job this process is, and how to reach its peers. It is
// all of launch that an application links.
//
// [Join] reads the environment. Under a launcher that speaks PMI-1 on an
// inherited descriptor (Banyan's own, Hydra's mpiexec, Slurm's srun --mpi=pmi2)
// the process is one rank of the job. With RANK and WORLD_SIZE it finds the
// others by package rendezvous. Otherwise it is alone, a world of one. PMI takes
// precedence. Ranks find each other through small published values:
//
//	job, err := join.Join(ctx)
//	err = job.Put(ctx, "address", myAddress)
//	err = job.Fence(ctx)                     // *MissingError names the missing ranks
//	addr, err := job.Get(ctx, peer, "address")
//	…
//	err = job.Finalize(ctx)
//
// The launcher is needed for these calls and for nothing else. When it dies the job goes on: a call
// that needs it fails with [ErrLauncherGone], and a rank that prints to the broken standard output
// is not killed (see [Join]).
//
// Only Banyan's own launcher names the missing ranks in the first fence, and completes later ones
// without failed ranks. Hydra ends all ranks when one dies before its time. Slurm's fence waits for
// a dead rank until the job step ends, so give [Job.Fence] a context with a deadline.
//
// # The secret
//
// [Job.Secret] gives all ranks the same 32 bytes, by which they recognize each other on a network.
// It comes from the file that BANYAN_SECRET_FILE names, if it is set for all ranks:
//
//	(umask 077; head -c 32 /dev/urandom >~/.banyan-secret)
//	export BANYAN_SECRET_FILE=~/.banyan-secret
//
// The file has 16 to 4096 bytes that cannot be guessed, the same in every rank, taken unchanged (a
// newline counts). A file that others may read, or that the group or others may write, is refused;
// the group may read. The job's secret is derived from it (HKDF-SHA256) with the job's name and
// does not travel. A user that can read the file can pose as a rank.
//
// Without a file rank 0 makes the secret, and publishes it to the others through the launcher. It
// is then as safe as that way:
//
//	ftbench run             a socket that each rank inherits: within the machine, as safe as
//	                        the processes of one user are from each other; to other machines
//	                        as the remote shell's connection is, which ssh encrypts
//	mpiexec of Hydra        TCP between mpiexec and its proxies, in clear: a listener on that
//	                        network has the secret
//	srun --mpi=pmi2         Slurm's own connections, which its AuthType (munge) authenticates
//	                        and, unless its TLS plugin is in use, nothing encrypts
//	RANK and WORLD_SIZE     the port of rank 0, in clear, for any program that claims to be a
//	                        rank: on a network that is not trusted, use a file
//
// The secret stands in no environment, argument, error or log. In memory it is as readable as
// everything of a process: to a debugger and in a core file.
//
// Floor 2: it imports proc, launch/pmi and launch/rendezvous.
package join
