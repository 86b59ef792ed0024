// Package control drives the failure protocols of a process over its progress engine: the failure
// detector ([Driver]), agreements ([Agreements]) and revocation ([Revocations]).
//
// # The detector driver
//
// A goroutine wakes whenever the detector's clock must advance, even while the application
// computes. It makes progress if no other goroutine does, so that received heartbeats count, and
// sends this process's own heartbeats. Frames of class detect and providers' evidence reach the
// detector at once, in the goroutine that makes progress, and the detector's frames are sent from
// there: the notice of a failure leaves before the waiting goroutines of this process run. A frame
// that needs a new connection to a rank of the same machine waits a twentieth of a period, since
// the kernel reports failures there. Only connecting needs another goroutine, because it waits for
// the launcher and the kernel.
//
// # Evidence of failure
//
// Every end that a provider reports is evidence, with two exceptions. [proc.Unreachable] concerns a
// pair of living processes, so the detector does not forward it; an agreement of the two settles it
// (package ft/repair). [proc.Refused] means that this process counts as failed elsewhere.
//
// Floor 4, beside p2p, which it does not use: control classes bypass matching.
package control
