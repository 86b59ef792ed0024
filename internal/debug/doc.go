// Package debug has the parts of the debug setting that know nothing of communicators: the header
// that carries the type of a message's elements, signatures of collectives, and the list of requests
// and communicators that a program has not ended.
//
//	framed := debug.Frame(buf, debug.Float64)
//	kind, ok := debug.Unframe(framed)
//	at := log.Open(debug.Call{Op: "isend", …})
//	log.Close(at)
//
// It does not decide when these are used: the root package does. Floor 6. A [Log] is for many
// goroutines, the rest has no state.
package debug
