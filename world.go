package banyan

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/banyan-hpc/banyan/internal/job"
	"github.com/banyan-hpc/banyan/internal/launch"
)

// World is this process's membership in its job: Init joins, Finalize leaves.
type World struct {
	job     *job.Job
	comm    *Comm
	holders holders // communicators with attributes
}

// ExitExpelled is the exit code of a rank that ends itself because it counts as
// dead at the others, or because it has lost a partition (docs/guide.md).
const ExitExpelled = job.ExitExpelled

// MissingError names the ranks that have kept [Init] from completing.
type MissingError = launch.MissingError

// Init makes this process a rank of the job that started it, or a world of one
// if nobody did. Without launcher, RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT
// say which rank of which job it is. Thresholds and sizes of
// buffers that the options leave open come from the environment and the files
// that docs/tuning.md describes; what is wrong there is an error. It returns when all ranks have called it. A rank that does
// not come, or dies before all have come, is named in the error (errors.As with
// *MissingError). One that dies later in the start does not keep the others from starting:
// the operations that need it are ErrProcFailed.
func Init(opts ...Option) (*World, error) { return InitContext(context.Background(), opts...) }

// InitContext is Init that ends with the context. A process joins its job once:
// when it has been given up, it is not tried again.
func InitContext(ctx context.Context, opts ...Option) (*World, error) {
	if ctx == nil {
		return nil, fmt.Errorf("banyan: %w", errNoContext)
	}
	o, err := gather(opts)
	if err != nil {
		return nil, fmt.Errorf("banyan: %w", err)
	}
	j, err := job.Init(ctx, o.Options)
	if err != nil {
		return nil, err
	}
	return newWorld(j), nil
}

// newWorld makes the World of a job's rank.
func newWorld(j *job.Job) *World {
	w := &World{job: j}
	w.comm = &Comm{core: j.World, e: j.P2P, mode: modeOf(j.Unaware), world: w}
	j.World.OnError((*listener)(w.comm))
	if j.Fatal {
		w.comm.SetErrorHandler(ErrorsAreFatal)
	}
	w.comm.trees.Choice = j.Trees
	w.comm.trees.Node = j.NodeOfProc
	return w
}

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

// Finalize ends this process's membership. It returns when what was sent has
// been handed over and every rank that is alive has called it, so that nobody
// takes the departure for a failure. A rank that lives and has taken nothing for ten seconds of what was agreed on
// or revoked is given up, with a warning. Requests that have not been waited for
// are lost. Calling it again does nothing, and returns what the first call has.
//
// First the attributes of all communicators are deleted that have not been freed;
// the one that came to have attributes last is the first. Everything that is begun
// on a communicator afterwards is ErrClosed.
//
// Called by a deferred function while a panic unwinds the stack it does nothing but return an error: the panic goes on to
// end the process, with its text and trace, and the others find that this rank has failed. Who recovers from the panic
// calls Finalize after the function that was deferred has returned. The same holds for runtime.Goexit where the job
// has more than one rank.
func (w *World) Finalize() error {
	if w.absent() {
		return fmt.Errorf("finalize: %w: no world; Init gives one", ErrArgument)
	}
	return w.job.Finalize(w.holders.close, w.logCounters)
}

// Comm is the communicator of all ranks of the job.
func (w *World) Comm() *Comm {
	if w == nil {
		return nil
	}
	return w.comm
}

// Now is the time since Init on the job's clock: real, or virtual in the
// simulator.
func (w *World) Now() time.Duration {
	if w.absent() {
		return 0
	}
	return w.job.Now()
}

// Sleep returns when d has passed on that clock. Like an application that
// computes, it makes no progress meanwhile.
func (w *World) Sleep(d time.Duration) {
	if !w.absent() {
		w.job.Sleep(d)
	}
}

// Abort ends the job: it says why on the standard error, has the launcher end all
// ranks with an exit code, and exits with it. Ranks that were started without
// launcher are not ended, they find that this one has failed. It does not return.
func (w *World) Abort(code int, why error) {
	if w.absent() {
		job.AbortAlone(code, fmt.Sprintf("a process that has not joined aborts: %v", why))
	}
	w.job.Abort(code, why)
}
