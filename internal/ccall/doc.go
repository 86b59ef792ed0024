// Package ccall calls short functions of C without cgo's way into them: on a stack of its own, and without
// telling Go's scheduler.
//
// cgo marks the thread as blocked for the time of a call, so that others may use its processor. Go's monitor takes the
// processor from a call that it sees twice, which is from 20 µs on where a process has one processor. Another thread is started for
// it then, and the caller waits for that one. A function that is called here keeps its processor instead: garbage collection waits for
// its end. So it must be short, must not block, and must not call Go.
//
// Signals are handled as in any call: Go's handlers have stacks of their own, and find the goroutine by the thread. The
// function may be interrupted but not preempted, because its instructions are not Go's.
//
// Floor 0. It imports nothing of Banyan's.
package ccall
