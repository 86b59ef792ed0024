// Package strangers connects to a TCP port, or a Unix socket, many times a second without being
// welcome there: the flood that a process must bear whose port others can reach.
//
// # What it does
//
// [Run] makes strangers at a steady rate, the kinds in turn (see [Kind]): some
// leave at once, some are silent, some talk nonsense, some know the protocol and
// not the secret, and some say that byte by byte. Each that stays leaves after a
// time, most with a reset. The schedule is of the clock and not of the answers: a
// flood that waited for the port would be slowed down by what it is to slow down.
// Where it falls behind it makes good, and [Report] says how many a second there
// were in the end.
//
// With [Config].Crowd a number of them comes at once, stays, and comes back when it is dropped:
// the other way to attack a port is to occupy it.
//
//	report, err := strangers.Run(ctx, strangers.Config{To: port, Rate: 1000, Hello: hello})
//	// until ctx ends; report.Connected, report.Rate(), report.Dropped, …
//
// It is cheap, because it shares the machine with what it disturbs: one thread,
// calls that do not block, and one clock that wakes it when something is due, but
// not more often than 250 times a second: what is due meanwhile happens together.
//
// # What it does not do
//
// It cannot tell whether a stranger was let in: only the port's owner knows whom it
// counts as a peer, and how many it has refused. It knows no protocol: what
// a forger says is [Config].Hello. It floods no network: more than [MaxAtOnce]
// connections are refused by Config, and it is for ports of this machine.
//
// Floor 8: a harness beside the others; it imports nothing of Banyan's. Run may be
// called by several goroutines, each with its own flood.
package strangers
