// Package host is the fabric.Host of a real process: the monotonic clock, Go's scheduler, and the
// one place where the process sleeps, a futex bell that shared-memory peers and helper goroutines
// ring.
//
// A wait polls, then yields, then sleeps. The length of each phase depends on whether the processes
// of this node have a core each: with more processes than cores a poll loop only keeps the peer
// from running, so there is no spinning and yielding comes first. Then a polling process lets the
// other processes run at every turn and its own goroutines at some ([Host.Relax]), because Go wakes
// a thread for an idle processor at each Gosched.
//
// Floor 2: it implements the contract beside the providers, and like them it is exempt from the
// rule that time and goroutines come from a Host.
package host
