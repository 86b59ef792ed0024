// Package control drives the failure protocols of a process over its progress
// engine: so far the failure detector ([Pulse]).
//
// # The pulse
//
// A goroutine of the process wakes when the detector wants to know the time, also
// while the application computes, has progress made if nobody does, so that
// heartbeats that have come are heard, and sends the process's own. Frames of class
// detect and evidence of providers reach the detector at once, in the goroutine that
// makes progress, and what the detector has to say about them goes out from there:
// a death that one process has seen is on its way to all others before the waiters
// of that process run. What would take a connection to a rank of the same machine waits
// a twentieth of a period, since the kernel tells there. Only connecting needs a goroutine of its own, because it waits for
// the launcher and the kernel.
//
// # What is evidence of death
//
// Everything by which a provider reports an end, but for two causes:
// [proc.Unreachable] is about a pair of processes of which both live, so the
// detector does not pass it on; an agreement of the two settles it (package ft/repair). [proc.Refused] says that this process is the one that counts as
// dead.
//
// Floor 4, beside p2p, which it does not use: control classes bypass matching.
package control
