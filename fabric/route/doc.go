// Package route decides which fabric connects two processes of a job, and returns the reason.
//
// Each process publishes a [Card]: its node, according to the kernel; the fabrics that it may use;
// the addresses of its providers; the cores on which it may run. [Choose] compares two cards and
// returns a verdict and a reason for each fabric. It is pure and symmetric, so both processes get
// the same verdicts without asking each other.
//
//	here, err := route.Here()
//	mine := route.Card{Node: here, Allowed: route.All, …}
//	theirs, err := route.DecodeCard(blob)
//	for _, v := range route.Choose(&mine, &theirs) { … v.Fabric, v.OK, v.Why … }
//
// # Conditions for shared memory
//
// A process maps its peer's memory through /proc/PID/fd, which the kernel permits by the rule for
// tracing (ptrace(2), PTRACE_MODE_READ). So a [Node] carries the inputs of that rule: the boot, the
// pid and user namespaces, user and group, the capabilities, and whether the process is dumpable.
// Host names prove nothing: containers have one each on one kernel, or the same on many.
//
// A rule of the kernel's security modules may still forbid it; then the provider returns
// fabric.ErrNoPath.
//
// # Nodes
//
// [Survey] reads the cards of all ranks of a job once and numbers their nodes; its [Topology] takes
// a few bytes per block of ranks, is published by one rank and read by the others.
//
// Published data are decoded within bounds: [DecodeCard] and [DecodeTopology] return an error for
// anything else.
//
// Floor 1. It imports no other package of the project.
package route
