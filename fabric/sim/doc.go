// Package sim is a simulated network: the processes of a whole job run in one operating-system
// process, one at a time, in virtual time, with the engine's own code unchanged. It implements the
// contract of package fabric (provider, connection, host) for every simulated process. It has two
// uses: experiments at a scale that no available machine has, and the search for faults in the
// engine when processes die, links stall or networks are partitioned.
//
//	cfg := sim.DefaultConfig(1024)
//	cfg.Seed = 7
//	s, err := sim.New(cfg)
//	for id := range proc.ID(1024) {
//		err = s.Spawn(id, func(p *sim.Proc) { run(p.Host(), p.Provider()) })
//	}
//	err = s.Kill(13, 250_000) // in virtual nanoseconds
//	err = s.Run()             // a deadlock is an error that lists the waiting processes
//
// # Promises
//
// The same Config, seed and bodies give the same trace byte for byte, and the same [Sim.TraceHash].
// There is no real concurrency, no real clock, no global randomness and no order taken from a map.
// Random numbers are a pure function of seed, purpose, processes and a count, so one more draw in
// one place changes nothing elsewhere.
//
// Causality is exact. A process has a clock of its own, which runs ahead while it computes; before
// it observes anything (a poll, the time, its credit) and before a frame leaves it, all earlier
// events of the job have happened.
//
// # The model
//
// A process is one core and one network port per medium. Times follow LogGP (Alexandrov et al.
// 1995) with the parameters of the link's class, see [Link]. A frame of n payload bytes that
// TrySend starts at t
//
//	occupies the core           t      … h = t + o_send + n·PerByte
//	enters the port             e = max(h, port free)
//	keeps the port busy         until e + g + n·G
//	arrives                     e + L + n·G (+ a spike), never before its predecessor
//	occupies the receiver       o_recv + n·PerByte, from the Poll that finds it
//	returns its credit          L after the receiver's function returned
//
// There is no congestion inside the network or at the receiver's port, and processes of one node do
// not share a port, unless Config.NodePort is set; then a frame also passes the engine of the
// receiver's node, for g. One-sided reads do not pass shared ports. [Profile] has complete
// descriptions of machines. Waking from [fabric.Host.Sleep] is free: sleeping stands for the
// polling of a real process, so Patience is (0, 0).
//
// # Partitions
//
// [Sim.Partition] stops the traffic between processes for a while. [Sim.Disconnect] makes two
// processes, which live and reach the others, unable to connect permanently.
//
// # Death
//
// A process dies at a virtual time ([Sim.Kill]) or in place of its n-th step ([Sim.KillAtStep]).
// Its activities are unwound by a panic that only this package recovers, so deferred functions run;
// in them every call that could wait or send panics again. Code under test must therefore take its
// locks through the host's parkers, as the contract demands, and not wait in deferred functions on
// anything else.
//
// Frames in flight when their sender dies arrive as a prefix of the sent ones, by seed
// ([Config.LossAtDeath]). Both ends of a connection observe each other from Connect on, whichever
// end made it. Each observer learns of a death after a delay of its own ([Config.Detection]);
// frames that have not arrived by then never do.
//
// # Limits
//
// It does not inject false suspicions, model congestion, or interrupt a body that loops without
// calling the host or the provider. A body must not wait on a channel or a lock held by another
// simulated process: no other process runs.
//
// Floor 2, with the other providers: it imports package fabric, which it implements, and packages
// ft and proc for sets and names of processes.
package sim
