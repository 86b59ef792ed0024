package banyan

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/internal/debug"
	"github.com/banyan-hpc/banyan/internal/job"
	"github.com/banyan-hpc/banyan/p2p"
)

// World is this process's membership in its job: Init joins, Finalize leaves.
type World struct {
	job      *job.Job
	comm     *Comm
	self     func() *Comm
	holders  holders // communicators with attributes
	buffered buffered
	checks   *debug.Log // nil: not under WithDebug
}

// ExitFenced is the exit code of a rank that ends itself because it counts as failed at the
// others, or because it is on the smaller side of a partition (docs/guide.md).
const ExitFenced = 71

var _ [ExitFenced - job.ExitFenced]struct{} // they are equal
var _ [job.ExitFenced - ExitFenced]struct{}

// Init makes this process a rank of the job that started it, or a job of one rank without a launcher.
// If no launcher is found, RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT describe the job. The
// environment and the files described in docs/tuning.md set the limits and buffer sizes that the
// options leave open; mistakes there are errors.
//
// Init returns when all ranks have called it. The error names ranks that do not come, or fail before
// all have come (errors.As with *MissingError). A rank that fails later in the start does not keep the
// others from starting: operations that need it are ErrProcFailed.
//
// Init ends with the context of [WithContext]. A process joins its job once: a start that was cancelled
// cannot be repeated.
func Init(opts ...Option) (*World, error) {
	o, err := gather(opts)
	if err != nil {
		return nil, fmt.Errorf("banyan: %w", err)
	}
	j, err := job.Init(cmp.Or(o.ctx, context.Background()), o.Options)
	if err != nil {
		return nil, err
	}
	return newWorld(j), nil
}

// newWorld returns the World of a job's rank.
func newWorld(j *job.Job) *World {
	w := &World{job: j, buffered: buffered{limit: bufferLimit}}
	if j.Debug {
		w.checks = new(debug.Log)
	}
	w.comm = w.first(j.World)
	w.self = sync.OnceValue(func() *Comm { return w.first(j.Alone("self")) })
	return w
}

// first wraps the core of a communicator that is not derived from another.
func (w *World) first(core *p2p.Comm) *Comm {
	j := w.job
	c := &Comm{core: core, e: j.P2P, mode: modeOf(j), world: w}
	core.SetErrorHandler((*listener)(c))
	if j.Fatal {
		c.SetErrorHandler(ErrorsAreFatal)
	}
	c.coll.Choice, c.coll.World = j.Trees, j.Coll
	return c
}

// Run is the main function of a rank: it joins the job ([Init]), calls body, and finalizes when
// body has returned nil. Then Run returns, and main returns with exit code 0. Started without a
// launcher the rank is a job of one, so Run works in a test too.
//
//	func main() { banyan.Run(work) }
//
//	func work(w *banyan.World) error { … }
//
// An error of body means that this rank has failed. Run prints the error and the rank on the
// standard error and exits with code 1, without finalizing: operations of other ranks that need
// this one end with ErrProcFailed. A panic in body ends the process as usual, with its trace and
// exit code 2, and has the same effect on others. [Simulate] follows the same rules.
//
// Errors of Init and of Finalize are printed in the same way, with exit code 1.
//
// Options are those of Init. A program that returns from main in another way, or with another exit
// code, calls Init and [World.Finalize] itself.
func Run(body func(w *World) error, opts ...Option) {
	if body == nil {
		fail(misuse("Run", fmt.Errorf("%w: no function", ErrArgument)))
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
		fail(fmt.Errorf("banyan: rank %d: %s", w.job.Rank(), ft.Bare(err)))
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// Finalize ends this process's membership. It returns when everything sent has been handed over and
// every living rank has called it, so that no rank takes the departure for a failure. It gives up
// waiting for a living rank that accepts no agreement or revocation frame for ten seconds, with a
// warning. Pending requests are lost, except buffered sends ([Comm.Bsend]): Finalize waits until
// they are received or their receivers have ended, so a program that does not receive them does not
// end. A second call does nothing and returns the result of the first. No context ends it: to wait
// for the others for a limited time, call Barrier before, on [Comm.WithContext].
//
// Finalize first deletes the attributes of all communicators that have not been freed, beginning
// with the communicator that received attributes last. Later operations are ErrClosed.
//
// Called by a deferred function while a panic unwinds the stack it returns an error and does
// nothing: the panic ends the process, with its text and trace, and the others see a failed rank. A
// program that recovers from the panic calls Finalize after the deferred function has returned. The
// same applies to runtime.Goexit in a job of several ranks.
func (w *World) Finalize() error {
	if w.absent() {
		return misuse("Finalize", errNoWorld)
	}
	return w.job.Finalize(w.detach, w.logCounters)
}

// detach ends everything that the application has not freed.
func (w *World) detach() error {
	err := w.holders.close()
	w.drain()
	w.report()
	return err
}

// Comm returns the communicator of all ranks of the job.
func (w *World) Comm() *Comm {
	if w == nil {
		return nil
	}
	return w.comm
}

// Self returns the communicator of this rank alone (MPI_COMM_SELF), the same one in each call. All
// operations work on it, collectives too; messages on it go from this rank to itself. The first call
// makes it and sends nothing. Finalize ends it, and [Comm.Free] of it is ErrArgument.
func (w *World) Self() *Comm {
	if w.absent() {
		return nil
	}
	return w.self()
}

// Now returns the time since Init on the job's clock: real, or virtual in the simulator.
func (w *World) Now() time.Duration {
	if w.absent() {
		return 0
	}
	return w.job.Now()
}

// Sleep returns when d has passed on that clock. Like a computation it makes no progress meanwhile.
func (w *World) Sleep(d time.Duration) {
	if !w.absent() {
		w.job.Sleep(d)
	}
}

// Abort ends the job. It prints the reason on the standard error, makes the launcher end all ranks
// with an exit code, and exits with that code. Ranks started without a launcher are not ended: for
// them this rank has failed. An exit code has the low 8 bits of code, or is 1 if only higher ones are
// set. Abort does not return.
func (w *World) Abort(code int, why error) {
	if w.absent() {
		job.AbortAlone(code, "a process that has not joined aborts: "+ft.Bare(why))
	}
	w.job.Abort(code, why)
}

// Route describes how two ranks of a job reach each other.
type Route struct {
	// Fabric is "self", "shm", "verbs", "unix", "tcp", or "sim" in the simulator.
	Fabric string
	// Detail describes the connection, for example by its addresses; may be "".
	Detail string
	// Why is the reason for this fabric; WhyNot has the reasons against each faster one.
	Why    string
	WhyNot []string
}

// String returns the route and the reasons against faster ones, in a line.
func (r Route) String() string {
	return job.Route{Fabric: r.Fabric, Detail: r.Detail, WhyNot: r.WhyNot}.String()
}

// Route describes how this rank reaches another rank of the job, and connects to it if it has not
// done so. The error names the attempts and the remedies; for a rank that has ended it is
// ErrProcFailed or ErrDeparted.
func (w *World) Route(rank int) (Route, error) {
	if w.absent() {
		return Route{}, misuse("Route", errNoWorld)
	}
	r, err := w.job.Route(rank)
	return Route{r.Fabric, r.Detail, r.Why, r.WhyNot}, err
}

// Node returns the number of a rank's node: equal for ranks that can share memory, 0 … in the order
// of their lowest ranks. Containers of one machine may be several nodes. It sends nothing. -1:
// there is no such rank.
func (w *World) Node(rank int) int {
	if w.absent() || rank < 0 || rank >= w.job.Size() {
		return -1
	}
	return w.job.NodeOf(rank)
}

// Detection describes how this rank detects failures, for operators.
type Detection struct {
	// On: a failure detector runs. Without it each rank detects only the failures that it observes
	// itself, and Period to Partition are zero.
	On bool
	// Period is the time between two heartbeats, Timeout the silence that counts as failure.
	// Period and Timeout are those in force, which Longer may have multiplied.
	Period, Timeout time.Duration
	// Longer is the factor of the default period and timeout where ranks share cores; 1: none.
	Longer int
	// Partition is the rule for ranks that fall silent at the same time: "majority" or "off".
	Partition string
	// Evidence is the first sign of the failure of a rank on this machine: "the kernel's record",
	// "robust words", "pidfd", or "connection" where this rank has no shared memory. Between
	// machines it is always the end of a connection.
	Evidence string
}

// Detection describes the failure detection of this rank. Any goroutine may call it at any time.
func (w *World) Detection() Detection {
	if w.absent() {
		return Detection{}
	}
	return Detection(w.job.Detection())
}

// Counters counts events at this rank's sockets since Init, and observations of its failure
// detector. Without sockets their counters stay 0. Counters only grow.
type Counters struct {
	// Admitted are the connections from other ranks, after each rank proved knowledge of the job's
	// secret. A connection made again counts again.
	Admitted uint64
	// Healed are the connections, of either direction, that broke and were made again without loss.
	// Many of them indicate a bad network, or an attacker in it.
	Healed uint64
	// Refused are the connections that were rejected.
	Refused Refused
	// Detector shows the delays that the detector has to tolerate in this job.
	Detector Detector
}

// Detector contains the observations of a rank's failure detector, for the choice of
// detect.timeout: a job whose ranks are late or silent for more than half of it is near a false
// failure. Without a detector all is 0.
type Detector struct {
	// Late is the longest delay of this rank's heartbeats, because it got no core or was stopped.
	Late time.Duration
	// Silence is the longest time without a message from an observed rank that later sent one. Up
	// to detect.period is usual. Time during which this rank did not run itself is left out.
	Silence time.Duration
	// Suspicions counts indirect probes: this rank asks all others about a silent rank two periods
	// before detect.timeout.
	Suspicions uint64
}

// plus joins the observations of two ranks.
func (d Detector) plus(o Detector) Detector {
	return Detector{max(d.Late, o.Late), max(d.Silence, o.Silence), d.Suspicions + o.Suspicions}
}

// Refused counts the rejected connections to this rank's sockets, by reason. TooMany may include
// the job's own ranks, which connect again; all others were never part of the job.
type Refused struct {
	// NotPeer did not use this protocol, or left before the first message.
	NotPeer uint64
	// OtherVersion are processes of another version of this library.
	OtherVersion uint64
	// WrongSecret used the protocol without the job's secret.
	WrongSecret uint64
	// OtherTarget had the secret, and looked for another process.
	OtherTarget uint64
	// TimedOut did not complete their handshake in time.
	TimedOut uint64
	// TooMany were rejected because too many handshakes were under way.
	TooMany uint64
}

// Total returns the sum of all.
func (r Refused) Total() uint64 {
	return r.NotPeer + r.OtherVersion + r.WrongSecret + r.OtherTarget + r.TimedOut + r.TooMany
}

// Plus returns the sum of two ranks' counters, and the maximum of their times.
func (c Counters) Plus(o Counters) Counters {
	c.Admitted += o.Admitted
	c.Healed += o.Healed
	c.Refused.NotPeer += o.Refused.NotPeer
	c.Refused.OtherVersion += o.Refused.OtherVersion
	c.Refused.WrongSecret += o.Refused.WrongSecret
	c.Refused.OtherTarget += o.Refused.OtherTarget
	c.Refused.TimedOut += o.Refused.TimedOut
	c.Refused.TooMany += o.Refused.TooMany
	c.Detector = c.Detector.plus(o.Detector)
	return c
}

// String returns the socket counters in a line, as "admitted 3, healed 0, refused 12 (10 not peers,
// 2 with a wrong secret)".
func (c Counters) String() string {
	s := fmt.Sprintf("admitted %d, healed %d, refused %d", c.Admitted, c.Healed, c.Refused.Total())
	var kinds []string
	for _, k := range []struct {
		n    uint64
		what string
	}{
		{c.Refused.NotPeer, "not peers"}, {c.Refused.OtherVersion, "of other versions"},
		{c.Refused.WrongSecret, "with a wrong secret"}, {c.Refused.OtherTarget, "for another process"},
		{c.Refused.TimedOut, "timed out"}, {c.Refused.TooMany, "too many at once"},
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

// Counters returns the counters so far. Any goroutine may call it at any time, also after Finalize;
// it takes some nanoseconds and does not block.
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

// PeerCounters counts the traffic of this rank with another one since Init. It uses the frame numbers
// of connections, so it costs messages nothing. An eager message is one frame, or several if it is
// longer than a frame of the fabric; announcements, answers, acknowledgements and the traffic of
// collectives and of the failure detector are frames too.
type PeerCounters struct {
	// Fabric is that of the connection, as in [Route]; "" without a connection, and then all is 0.
	Fabric string
	// FramesSent and FramesReceived count the frames; 0 for this rank itself and in the simulator.
	FramesSent, FramesReceived uint64
	// RendezvousSent and RendezvousReceived count the messages that were announced first, because
	// they were long, synchronous, or beyond the limit of unexpected messages, with their bytes.
	RendezvousSent, RendezvousReceived           uint64
	RendezvousBytesSent, RendezvousBytesReceived uint64
	Borrowed, BorrowedCopies                     uint64 // lent messages that Borrow returned in place, and by a copy
	// Broken counts the breaks of the connection, Healed the reconnections after them.
	Broken, Healed uint64
}

// PeerCounters counts the traffic with another rank of the job. It sends nothing and does not connect.
// Any goroutine may call it. The zero value: there is no such rank, or no connection to it.
func (w *World) PeerCounters(rank int) PeerCounters {
	if w.absent() || rank < 0 || rank >= w.job.Size() {
		return PeerCounters{}
	}
	return PeerCounters(w.job.PeerCounters(rank))
}

// logCounters logs the counters of sockets, if there are any.
func (w *World) logCounters() {
	if len(w.job.Sockets()) > 0 {
		w.job.Log("connections: " + w.Counters().String())
	}
}
