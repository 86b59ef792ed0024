// Package intrusion opens connections to a TCP port, or a Unix socket, that do not authenticate:
// the flood that a process with a reachable port must bear. Tests and the command's comparisons use
// it.
//
//	report, err := intrusion.Run(ctx, intrusion.Config{To: port, Rate: 1000, Hello: hello})
//	// until ctx ends; report.Connected, report.Rate(), report.Dropped, …
//
// [Run] opens connections at a steady rate, the kinds in turn (see [Kind]). Each that stays is
// closed after a time, most with a reset. The schedule follows the clock and not the answers: a
// flood that waited for the server would be slowed by its target. [Report] has the rate that was
// reached. With [Config].Held it occupies a port instead.
//
// It shares the machine with the measured processes, so it is cheap: one thread, calls that do not
// block, and at most 250 wake-ups a second.
//
// It cannot see whether a connection was admitted: only the server counts its peers and its
// refusals. It is for ports of this machine.
//
// Floor 0: it imports nothing of Banyan's. Several goroutines may call Run.
package intrusion
