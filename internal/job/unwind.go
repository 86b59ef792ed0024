package job

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/banyan-hpc/banyan/ft"
)

// finalizeFunc is the name of [Job.Finalize] in a traceback.
const finalizeFunc = "internal/job.(*Job).Finalize"

// mayFinalize finds reasons why Finalize must not wait for the other ranks now.
//
// A panic that unwinds the stack ends the process once all deferred functions have returned.
// Finalize among them would wait for ranks that wait for this one, and the panic's text would never
// be printed. Finalize cannot call recover, which works only in functions that are deferred
// themselves and ends the panic; so it looks for the panic on the stack.
func (j *Job) mayFinalize() error {
	calls := 0
	for name := range callers() {
		switch {
		case name == "runtime.gopanic":
			return fmt.Errorf("finalize: a panic unwinds the stack: rank %d stays in the job, and fails when its process ends; "+
				"a program that recovers calls Finalize after that", j.Rank())
		case name == "runtime.Goexit" && j.Size() > 1:
			return fmt.Errorf("finalize: runtime.Goexit unwinds the stack: rank %d stays in the job, "+
				"and fails when its process ends",
				j.Rank())
		case strings.HasSuffix(name, finalizeFunc):
			if calls++; calls > 1 {
				return fmt.Errorf("finalize: %w: called by the delete function of an attribute", ft.ErrArgument)
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
