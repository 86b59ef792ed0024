// Package debug implements the checks of the debug setting: the header that carries the type of a
// message's elements, descriptions of collectives and their comparison, copies of the buffers that
// collectives borrow, and the list of requests and communicators that a program has not ended.
//
//	framed := debug.Frame(buf, debug.Float64)
//	kind, ok := debug.Unframe(framed)
//	at := log.Open(debug.Call{Op: "isend", …})
//	log.Close(at)
//	in, out, check := log.Lend(comm, debug.Collective{Op: "iallreduce", …}, send, recv)
//
// It does not decide when these are used: the root package does. Floor 6. Any goroutine may use a
// [Log]; the rest has no state.
package debug
