package banyan

import (
	"fmt"
	"runtime"
	"strings"
)

// finalizeFunc is how a traceback names [World.Finalize].
const finalizeFunc = "banyan.(*World).Finalize"

// mayFinalize says why Finalize must not wait for the others now.
//
// A panic that unwinds the stack ends the process once all deferred functions have returned. Finalize among them would
// wait for ranks that wait for this one, and the panic's text would never be printed. It cannot ask recover, which
// answers only to functions that are deferred themselves and ends the panic; so it looks for the panic on the stack.
func (w *World) mayFinalize() error {
	if w.absent() {
		return fmt.Errorf("finalize: %w: no world; Init gives one", ErrArgument)
	}
	calls := 0
	for name := range callers() {
		switch {
		case name == "runtime.gopanic":
			return fmt.Errorf("finalize: a panic unwinds the stack: rank %d stays in the job, and fails when its process ends; "+
				"a program that recovers calls Finalize after that", w.job.Rank())
		case name == "runtime.Goexit" && w.job.Size() > 1:
			return fmt.Errorf("finalize: runtime.Goexit unwinds the stack: rank %d stays in the job, and fails when its process ends", w.job.Rank())
		case strings.HasSuffix(name, finalizeFunc):
			if calls++; calls > 1 {
				return fmt.Errorf("finalize: %w: called by the delete function of an attribute", ErrArgument)
			}
		}
	}
	return nil
}

// callers gives the names of the functions on the stack of this goroutine, the innermost first.
func callers() func(yield func(string) bool) {
	return func(yield func(string) bool) {
		pcs := make([]uintptr, 64)
		for n := runtime.Callers(0, pcs); n == len(pcs); n = runtime.Callers(0, pcs) {
			pcs = make([]uintptr, 2*len(pcs))
		}
		frames := runtime.CallersFrames(pcs)
		for more := true; more; {
			var f runtime.Frame
			if f, more = frames.Next(); !yield(f.Function) {
				return
			}
		}
	}
}
