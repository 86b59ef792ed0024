package banyan

import (
	"fmt"
	"os"
)

// Run is the main function of a rank: it joins the job ([Init]), calls body and finalizes when body has returned nil.
// Then it returns, for main to return, with exit code 0. Started alone it is a world of one, so it works in a test too.
//
//	func main() { banyan.Run(work) }
//
//	func work(w *banyan.World) error { … }
//
// An error of body means that this rank has failed. Run prints it on the standard error with the rank and ends the
// process with exit code 1, without finalizing: operations of others that need this rank end with ErrProcFailed, and do not
// wait for it. A panic in body ends the process as it always does, with its text and trace and exit code 2, to the
// same effect. [Simulate] runs the same body and follows the same rules.
//
// Errors of Init and of Finalize are printed in the same way, with exit code 1.
//
// Options are those of Init. A program that wants to return from main in another way, or with another exit code, calls
// Init and [World.Finalize] itself.
func Run(body func(w *World) error, opts ...Option) {
	if body == nil {
		fail(fmt.Errorf("banyan: run: %w: no function", ErrArgument))
	}
	w, err := Init(opts...)
	if err != nil {
		fail(err)
	}
	defer w.Finalize() // by runtime.Goexit, as by testing.T.FailNow; it does nothing in a panic
	if err = body(w); err == nil {
		err = w.Finalize()
	}
	if err != nil {
		fail(fmt.Errorf("banyan: rank %d: %w", w.job.Rank(), err))
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
