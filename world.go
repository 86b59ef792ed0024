package banyan

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/banyan-hpc/banyan/internal/job"
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
	j.World.SetErrorHandler((*listener)(w.comm))
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

// Route is how two ranks of a job reach each other.
type Route struct {
	// Fabric is "self", "shm", "unix", "tcp", or "sim" in the simulator.
	Fabric string
	// Detail is what the connection says of itself, as its addresses; may be "".
	Detail string
	// Why says why this fabric joins the two; WhyNot, why each faster one does not.
	Why    string
	WhyNot []string
}

// String gives the route and what speaks against faster ones, in a line.
func (r Route) String() string {
	return job.Route{Fabric: r.Fabric, Detail: r.Detail, WhyNot: r.WhyNot}.String()
}

// Route tells how this rank reaches another rank of the world, and connects to it if
// that has not been done. The error names what was tried and what helps; a rank
// that has ended before is ErrProcFailed or ErrDeparted.
func (w *World) Route(rank int) (Route, error) {
	if w.absent() {
		return Route{}, fmt.Errorf("route: %w: no world; Init gives one", ErrArgument)
	}
	r, err := w.job.Route(rank)
	return Route{r.Fabric, r.Detail, r.Why, r.WhyNot}, err
}

// Node is the number of the node on which a rank of the world stands: equal for
// ranks that can share memory, 0 … of the lowest ranks first. Containers of one
// machine may be several nodes. It asks nobody. -1: there is no such rank.
func (w *World) Node(rank int) int {
	if w.absent() || rank < 0 || rank >= w.job.Size() {
		return -1
	}
	return w.job.NodeOf(rank)
}

// Detection is how this rank learns that others have died, for people who look after
// a job.
type Detection struct {
	// On: ranks observe each other and tell each other of deaths. Else each knows only of
	// the ends that it sees for itself, and Period to Partition are zero.
	On bool
	// Period is the time between two heartbeats, Timeout the silence that is death: those in
	// force, which are longer than the settings' where Longer says so.
	Period, Timeout time.Duration
	// Longer is by how much the default of the timeout has been multiplied because ranks
	// share cores; 1: it has not.
	Longer int
	// Partition is the rule for ranks that fall silent together: "majority" or "off".
	Partition string
	// Evidence is what tells first of the death of a rank on this machine: "the kernel's
	// record", "robust words", "pidfd", or "connection" where this rank has no shared
	// memory. Between machines it is always a connection's end.
	Evidence string
}

// Detection says how deaths are found here. Any goroutine may call it at any time.
func (w *World) Detection() Detection {
	if w.absent() {
		return Detection{}
	}
	return Detection(w.job.Detection())
}

// Counters are what this rank has counted at its sockets since Init, and what its
// failure detector has seen. Shared memory and the simulator have no sockets; where no
// pair of ranks needs them, what is counted there stays 0. They only grow.
type Counters struct {
	// Admitted are the connections that other ranks have made to this one, each
	// after it had proved to know the job's secret. One that is made again counts
	// again.
	Admitted uint64
	// Healed are the connections, of whichever side, that broke and were made again;
	// nothing was lost. Many of them tell of a bad network, or of somebody in it.
	Healed uint64
	// Refused are those that were not let in.
	Refused Refused
	// Detector tells how much patience this job needs.
	Detector Detector
}

// Detector is what a rank's failure detector has seen so far, to set detect.timeout by:
// a job whose ranks are late or silent for more than half of it is near a false
// failure. Without a detector all is 0.
type Detector struct {
	// Late is the longest time by which this rank's heartbeats were held up, because
	// it got no core or was stopped.
	Late time.Duration
	// Silence is the longest that nothing was heard of a rank that this one observes
	// and that then was heard: its lateness and the network's. Up to detect.period
	// is usual. Time for which this rank did not run itself is left out.
	Silence time.Duration
	// Suspicions is how often this rank has asked all others for a rank after such
	// a silence, which begins two periods before detect.timeout.
	Suspicions uint64
}

// plus is what two ranks have seen.
func (d Detector) plus(o Detector) Detector {
	return Detector{max(d.Late, o.Late), max(d.Silence, o.Silence), d.Suspicions + o.Suspicions}
}

// Refused counts connections to this rank's sockets that were not let in, by reason.
// Crowded may be some of the job's own ranks, which come back by themselves; all
// others were never let near the job.
type Refused struct {
	// Strangers did not speak this protocol, or left before they had said anything.
	Strangers uint64
	// Versions are processes of another version of this library.
	Versions uint64
	// Forgers spoke the protocol and did not know the job's secret.
	Forgers uint64
	// Misled knew the secret, and meant another process than this one.
	Misled uint64
	// Dawdlers did not come to an end with their handshake in time.
	Dawdlers uint64
	// Crowded had to go because too many others were in the middle of theirs.
	Crowded uint64
}

// Total is the number of all.
func (r Refused) Total() uint64 {
	return r.Strangers + r.Versions + r.Forgers + r.Misled + r.Dawdlers + r.Crowded
}

// Plus is the sum of two ranks' counters, and the longer of their times.
func (c Counters) Plus(o Counters) Counters {
	c.Admitted += o.Admitted
	c.Healed += o.Healed
	c.Refused.Strangers += o.Refused.Strangers
	c.Refused.Versions += o.Refused.Versions
	c.Refused.Forgers += o.Refused.Forgers
	c.Refused.Misled += o.Refused.Misled
	c.Refused.Dawdlers += o.Refused.Dawdlers
	c.Refused.Crowded += o.Refused.Crowded
	c.Detector = c.Detector.plus(o.Detector)
	return c
}

// String gives what is counted at sockets in a line, as "admitted 3, healed 0, refused 12 (10
// strangers, 2 forgers)".
func (c Counters) String() string {
	s := fmt.Sprintf("admitted %d, healed %d, refused %d", c.Admitted, c.Healed, c.Refused.Total())
	var kinds []string
	for _, k := range []struct {
		n    uint64
		what string
	}{
		{c.Refused.Strangers, "strangers"}, {c.Refused.Versions, "of other versions"}, {c.Refused.Forgers, "forgers"},
		{c.Refused.Misled, "misled"}, {c.Refused.Dawdlers, "dawdlers"}, {c.Refused.Crowded, "crowded out"},
	} {
		if k.n > 0 {
			kinds = append(kinds, fmt.Sprintf("%d %s", k.n, k.what))
		}
	}
	if kinds != nil {
		s += " (" + strings.Join(kinds, ", ") + ")"
	}
	return s
}

// Counters returns what this rank has counted so far. Any goroutine may call it at
// any time, also after Finalize; it takes some nanoseconds and waits for nobody.
func (w *World) Counters() Counters {
	var c Counters
	if w.absent() {
		return c
	}
	for _, s := range w.job.Sockets() {
		c = c.Plus(Counters{
			Admitted: s.Accepted, Healed: s.Reconnects,
			Refused: Refused{s.NotPeer, s.OtherVersion, s.Unauthenticated, s.Misdirected, s.TimedOut, s.Evicted},
		})
	}
	s := w.job.DetectorStats()
	c.Detector = Detector{time.Duration(s.Late), time.Duration(s.Silence), s.Suspicions}
	return c
}

// logCounters logs what was counted at sockets, if there were any.
func (w *World) logCounters() {
	if len(w.job.Sockets()) > 0 {
		w.job.Logf("connections: %v", w.Counters())
	}
}
