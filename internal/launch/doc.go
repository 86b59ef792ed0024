// Package launch says who this process is in its job and who its peers are
// ([Join]), and starts jobs on this machine and on others ([Run]).
//
// # The side of a rank
//
// [Join] reads the environment. Under a launcher that speaks PMI-1 on an
// inherited descriptor (Banyan's own, Hydra's mpiexec, Slurm's srun
// --mpi=pmi2, whose plugin serves version 1 to those who ask for it) the
// process is one rank of the job; without one it is alone, a world of one.
// Ranks find each other through small published values:
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
// That the first fence names who is missing, and that later ones complete
// without the dead, is Banyan's own launcher's doing. Hydra ends all ranks when
// one dies before its time. Slurm's fence waits for a dead rank until the job
// step ends, so give [Job.Fence] a context that does.
//
// # Ranks without launcher
//
// Where the ranks are started one by one, by torchrun, Kubernetes or hand, the
// environment of each says who it is. PMI goes before these variables.
//
//	RANK, WORLD_SIZE              which rank, of how many
//	MASTER_PORT                   a TCP port that is free where rank 0 runs
//	MASTER_ADDR                   an address of that machine; default 127.0.0.1
//	LOCAL_RANK, LOCAL_WORLD_SIZE  optional: which ranks share a node
//	TORCHELASTIC_RUN_ID           optional: if set, the same in all ranks
//	BANYAN_SECRET_FILE            optional: see [SecretFileEnv], "The secret"
//	BANYAN_INIT_TIMEOUT           optional: see [InitTimeoutEnv]
//
//	for r in 0 1 2; do
//		RANK=$r WORLD_SIZE=3 MASTER_PORT=29500 ./app &
//	done
//
// Rank 0 serves PMI-1 to the others in the launcher's place, over TCP; the port
// is open until it finalizes. The others try to reach it until a start-up may take no longer;
// then [Join] names rank 0 in a [*MissingError]. Rank 0 and the ranks that have
// come name in the first [Job.Fence] those that have not. When rank 0 ends,
// dead or finalized, the others go on as without launcher: [ErrLauncherGone].
//
// MASTER_ADDR is an address of either family or a name. A name is asked for with
// every attempt, so it may begin to resolve late and may change; whichever of
// its addresses answers first is taken. Rank 0 listens at all of them that are its
// machine's, and waits until there is one. Who has waited for five seconds says
// on standard error for what, once. Rank 0 alone may be given another
// MASTER_ADDR than the others, such as 0.0.0.0, where they reach it by an address that
// its machine does not have.
//
// What connects to the port has five seconds and lines of 512 bytes to say that it is a
// rank: the version of the protocol, WORLD_SIZE, a rank that nobody else has,
// and TORCHELASTIC_RUN_ID. A rank that does not fit is told why, everything else
// is disconnected. This keeps accidents out, not attackers: who can reach the
// port and knows these words can pose as a rank. With BANYAN_SECRET_FILE rank 0
// and the others prove to each other that they know the secret, before anything else is
// said: HMAC-SHA256 over a fresh nonce of each side, the version, rank, size,
// run id and the job's name. Who does not know it is told only that one is
// needed; what was recorded at another meeting is worth nothing. The rest of the conversation is
// neither encrypted nor signed: who can change packets under way can disturb the
// start-up.
//
// Under torchrun itself MASTER_PORT is usually taken by its agent
// (TORCHELASTIC_USE_AGENT_STORE=True): give the program another one,
//
//	torchrun --nproc-per-node 4 --no-python sh -c 'MASTER_PORT=29511 exec ./app'
//
// # The secret
//
// [Job.Secret] gives all ranks the same 32 bytes, by which they tell each other
// from strangers on a network. It comes from one of two places.
//
// From the file that BANYAN_SECRET_FILE names, if it is set for all ranks:
//
//	(umask 077; head -c 32 /dev/urandom >~/.banyan-secret)
//	export BANYAN_SECRET_FILE=~/.banyan-secret
//
// 16 to 4096 bytes that cannot be guessed, the same in every rank, taken as they are (a newline
// counts). Everybody's permission to read the file and others' to write it are
// refused; the group may read. The job's secret is derived from it (HKDF-SHA256)
// with the job's name and travels nowhere. Who can read the file can pose as a rank.
//
// Otherwise rank 0 makes it, and publishes it to the others through the launcher. Then it is as
// safe as that way:
//
//	ftbench run             a socket that each rank inherits: within the machine, as safe as
//	                        the processes of one user are from each other; to other machines
//	                        as the remote shell's connection is, which ssh encrypts
//	mpiexec of Hydra        TCP between mpiexec and its proxies, in clear: who can listen to
//	                        that network has the secret
//	srun --mpi=pmi2         Slurm's own connections, which its AuthType (munge) authenticates
//	                        and, unless its TLS plugin is in use, nothing encrypts
//	RANK and WORLD_SIZE     the port of rank 0, in clear, for whoever says it is a rank:
//	                        on a network that is not trusted, use a file
//
// The secret stands in no environment, argument, error or log. In memory it is
// as readable as everything of a process: to a debugger and in a core file.
//
// # The side of the launcher
//
// [Run] starts the ranks of one job, serves PMI-1 to them, binds them to
// cores, forwards their output and signals, and reports how each ended. It
// never ends the others because one died, unless asked to ([Abort]).
//
// Each of the two destinations of output belongs to one goroutine, which alone
// waits when nobody reads: ranks that print are held up then, but signals and
// the ends of ranks are heeded. A destination that fails is said once, on the
// other one, and is in the [Result]; ranks never notice.
//
// Each rank leads a process group of its own. So an interrupt typed at the
// terminal reaches the launcher alone, which forwards it exactly once, and what
// a rank starts (a shell's children) can be ended with it. The same goes for what
// stops and continues a job, and for SIGUSR1 and SIGUSR2, by which batch systems
// warn of their end; see [Signals]. The price: a rank cannot read the terminal
// itself, so the launcher reads it for rank 0, while it is in the foreground
// itself: in the background (&) it would be stopped.
//
// With [Abort] the kernel kills each rank when the launcher dies, also by
// SIGKILL (PR_SET_PDEATHSIG, which follows the forking thread: one thread forks
// all ranks and lives until the job has ended). It reaches the process that was
// started; a program that runs as the child of a wrapping shell lives on.
//
// # Other machines
//
// With [Spec.Hosts] the launcher starts one process on each host, the proxy
// ([Proxy]), through a remote shell such as ssh. The proxy starts the ranks of
// its host. All that launcher and ranks have to say to each other goes over the
// standard streams of the remote shell, as frames: PMI-1, output, input, signals,
// ends. So there is no further port to open or to guard, and what ssh carries
// nobody else reads. Each stream of each rank has a window of its own, so output
// that nobody reads holds up the rank that prints and nothing else.
//
// No rank starts before all hosts are ready: their proxies have answered, found
// the program and the working directory. What a host's remote shell prints before
// its proxy answers is shown, or is part of the error if it never does.
//
// When the launcher dies, proxies notice that their input ends. Under [Abort] they
// kill their ranks. Under [Continue] they stay, read what the ranks print, and
// close their PMI-1 connections: to the ranks the launcher is gone.
//
// When the remote shell or the proxy dies, the launcher reports the host as lost
// and its ranks as lost with it ([End].Lost); fences complete without them. Under
// [Abort] the ranks there die (the kernel kills them with the proxy; a proxy
// whose connection has ended does it itself) and so does the rest of the job.
// Under [Continue] they go on, alone, and the launcher waits for the others. The
// launcher cannot know which of the two has died, a connection or a machine, so
// it does not start what may still be running a second time.
//
// A connection that is silently dead is noticed by the remote shell or not at
// all: [DefaultShell] has ssh ask every 15 seconds. On the side of the host it is
// for sshd to notice (ClientAliveInterval).
//
// # What this package does not do
//
// It starts no replacements for dead ranks,
// does not speak PMI-2 or PMIx, and is no failure detector: that a rank died
// is found out by the ranks themselves, with or without a launcher.
//
// Floor 2: it may import floors 0 and 1 and stands beside the providers. It
// imports internal/affinity and proc.
package launch
