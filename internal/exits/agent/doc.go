// Package agent is a daemon that has the kernel record ends for processes that
// ftbench run did not start: one on each node, before Slurm, Hydra or anybody
// else starts ranks there.
//
//	l, err := agent.Listen(exits.DefaultAgent)
//	err = agent.Serve(ctx, l, ready, report)
//
// A process that connects and says Hello is registered, itself and nobody else:
// who it is the kernel says (SO_PEERCRED). It gets the descriptors of its user's
// hook; users do not share one, since readers could silence its bell
// (package hook). A hook goes when the last process of its user has ended;
// those who hold its descriptors go on, as they do when the agent dies.
//
// Limits: [MaxUsers] hooks, hook.MaxLive processes of each. Of connections on which nothing has been said
// [MaxSilent] of a user, [MaxTalks] of all, [TalkTime] for each: the oldest makes way for a
// new one, so users cannot keep each other out. Each process that is registered takes a
// descriptor; who comes when there is none waits until there is.
//
// An agent in a container sees the processes of its own pid namespace and those
// below. It refuses others, which have no pid there.
//
// Floor 0. It stands on internal/exits/hook, and only the command and tests import it.
package agent
