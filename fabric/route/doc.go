// Package route decides by which fabric two processes of a job reach each other,
// and says why.
//
// Each process publishes a [Card]: on which node it stands, as the kernel tells
// it; which fabrics it may use; at which addresses its providers are reached; on
// how many cores it may run. [Choose] looks at two cards and gives a verdict and a
// reason for each fabric. It is pure and takes both sides alike, so both come to
// the same verdicts without asking each other.
//
//	here, err := route.Here()
//	mine := route.Card{Node: here, Allowed: route.All, …}
//	theirs, err := route.DecodeCard(blob)
//	for _, v := range route.Choose(&mine, &theirs) { … v.Fabric, v.OK, v.Why … }
//
// # What proves that memory can be shared
//
// A process maps its peer's memory through /proc/PID/fd, which the kernel allows
// by the rule for tracing (ptrace(2), PTRACE_MODE_READ). So a [Node] carries what
// that rule looks at: the boot, the pid and user namespaces, user and group, the
// capabilities, whether the process may be dumped. Host names prove nothing:
// containers have one each on one kernel, or the same on many.
//
// A rule of the kernel's security modules may still say no; then the provider
// finds out (fabric.ErrNoPath).
//
// # Nodes
//
// [Survey] looks at the cards of all ranks of a job once and numbers their nodes;
// its [Topology] takes a few bytes per block of ranks, is published by one rank
// and read by the others.
//
// What a peer published is decoded within bounds: [DecodeCard] and
// [DecodeTopology] return an error for everything that is not one.
//
// Floor 1. It imports no other package of the project.
package route
