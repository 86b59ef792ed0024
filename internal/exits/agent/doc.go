// Package agent is a daemon that makes the kernel record ends for processes that ftbench run did not
// start: one on each node, before Slurm, Hydra or another launcher starts ranks there.
//
//	l, err := agent.Listen(exits.DefaultAgent)
//	err = agent.Serve(ctx, l, ready, report)
//
// A process that connects and sends Hello is registered, and no other process: the kernel identifies it
// (SO_PEERCRED). It gets the descriptors of its user's hook. Users do not share a hook, since readers
// could silence its bell (package hook). A hook is closed when the last process of its user has ended.
// Processes with its descriptors keep using it, as they do when the agent dies.
//
// Limits: [MaxUsers] hooks, hook.MaxLive processes of each. Of connections on which nothing has been sent
// [MaxSilent] of a user, [MaxTalks] of all, [TalkTime] for each. A new connection replaces the oldest
// one, so users cannot keep each other out. Each registered process takes a descriptor; without a free
// one a new process waits until there is one.
//
// An agent in a container sees the processes of its own pid namespace and those below. It refuses others,
// which have no pid there.
//
// Floor 0. It stands on internal/exits/hook, and only the command and tests import it.
package agent
