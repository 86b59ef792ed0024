package banyan

import (
	"bytes"
	"cmp"
	"context"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/internal/job"
	"github.com/banyan-hpc/banyan/internal/proc"
)

type options struct {
	job.Options
	ctx context.Context // of Init; nil: none was passed
	err error           // of an option
}

// Option changes a default of [Init].
type Option func(*options)

// WithAware chooses between the fault-aware engine (true, the default) and the unaware one, which
// hangs when a peer fails. The unaware one exists to measure the cost of awareness.
func WithAware(aware bool) Option { return func(o *options) { o.Unaware = !aware } }

// WithContext ends [Init] when the context ends, with an error that wraps ctx.Err(). It bounds only the
// start: later calls end with the contexts of their communicators ([Comm.WithContext]), and
// [World.Finalize] with none. A simulation ignores it, since its start does not wait. A nil context is
// ErrArgument.
func WithContext(ctx context.Context) Option {
	return func(o *options) {
		if o.ctx = ctx; ctx == nil {
			o.err = errNoContext
		}
	}
}

// WithProfile chooses the rules of communicators after failures, [ULFM] by default, unless
// [Comm.SetProfile] changes them. All ranks should choose the same.
func WithProfile(p Profile) Option { return func(o *options) { o.Profile = p } }

// The options have one form: WithX(value), or WithX(elements...) for a list. If an option is passed
// several times, the last one counts. Without an option the user's settings decide (docs/tuning.md).

// WithFabrics restricts the fabrics: "shm" (shared memory), "verbs" (RDMA), "unix" (Unix-domain
// sockets), "tcp". Other names, and an empty list, are an error of Init. Each pair of ranks uses the
// first fabric that connects them and that both allow. If there is none, the first operation that
// needs the pair fails. Without this option BANYAN_FABRIC decides (separated by commas); by default
// all are allowed. [World.Route] reports the choice.
func WithFabrics(names ...string) Option {
	list := strings.Join(names, ",")
	return func(o *options) { o.Fabric = &list }
}

// WithNetworks restricts the addresses at which other machines reach this rank by TCP: names of
// interfaces and networks, such as "eth0" or "10.1.0.0/16"; "!" before a name excludes it. Without
// this option BANYAN_NETWORKS decides (separated by commas); by default all interfaces that are up
// are used.
func WithNetworks(networks ...string) Option {
	list := strings.Join(networks, ",")
	return func(o *options) { o.Networks = &list }
}

// WithEagerLimit sets the longest message, in bytes, that is sent eagerly, up to 64 MiB. 0 leaves
// the choice to the user's settings (docs/tuning.md), and these, by default, to the transport.
// Ranks may choose differently.
func WithEagerLimit(bytes int) Option { return func(o *options) { o.EagerLimit = bytes } }

// WithUnexpectedLimit bounds the eager messages, in bytes with 256 more for each, that this rank
// sends to another rank before that rank grants more, up to 1 GiB. 0 leaves it to the user's
// settings, 1 MiB by default. A receiver keeps at most about one and a half times as much of
// unexpected messages from one sender. A sender at the limit continues as for long messages: Send
// returns when the message is received. Set it alike on all ranks. It must have room for four
// messages of the eager limit.
func WithUnexpectedLimit(bytes int) Option { return func(o *options) { o.UnexpectedLimit = bytes } }

// WithMemoryLimit sets the number of bytes that this rank may allocate with [Alloc], up to 1 TiB. 0 leaves it
// to the user's settings (memory.limit). By default it is this rank's share of half of the memory that is free
// on the machine, or in the control group, at the first call. Ranks may choose differently.
func WithMemoryLimit(bytes int) Option { return func(o *options) { o.MemoryLimit = bytes } }

// WithAsyncProgress starts a progress goroutine, which answers peers while this rank computes:
// rendezvous transfers and queued messages proceed without a call. Without it, the default, they
// proceed in the next call that waits or tests. The goroutine sleeps until a message arrives. It
// costs a rank that communicates all the time up to one wake-up per millisecond; a rank bound to a
// single core computes less while it answers.
func WithAsyncProgress(on bool) Option {
	return func(o *options) { o.Async = &on }
}

// WithDetection sets the times of the failure detector. Each rank sends a heartbeat once per
// period. A rank that is silent for a timeout, at least three periods, counts as failed and is
// killed if necessary. Both are whole milliseconds. Two zeros disable the detector: then a rank
// detects only the failures that it observes itself. All ranks of a job need the same times.
// Without this option the user's settings decide (docs/tuning.md: detect.period, detect.timeout),
// 500 ms and 3 s by default, with a timeout of 12 s where ranks share cores. The simulator has no
// detector without this option.
func WithDetection(period, timeout time.Duration) Option {
	return func(o *options) { o.Detection = &job.DetectionTimes{Period: period, Timeout: timeout} }
}

// WithErrorsFatal makes [ErrorsAreFatal] (true) or [ErrorsReturn] (false) the initial error handler
// of the world's communicator, and so of all derived from it, until [Comm.SetErrorHandler] sets
// another one. MPI's default is the first. Without this option the user's settings decide
// (BANYAN_ERRORS), return by default. Errors of Init are returned in any case. Ranks may choose
// differently.
func WithErrorsFatal(fatal bool) Option {
	return func(o *options) { o.ErrorsFatal = &fatal }
}

// WithKernelCopy has the kernel copy large messages from process to process where it can (true), or
// streams them through shared memory everywhere (false). Without this option the user's settings
// decide (shm.kernel_copy), true by default.
func WithKernelCopy(on bool) Option { return func(o *options) { o.KernelCopy = &on } }

// WithLog sets the logger of the library's events: the fabric of each peer and the reasons against
// faster ones, the protocol of large messages, rejected connections, and, at level Warn, events that
// need attention. Attributes are "rank", "peer" (a rank), "fabric" and "reason", as far as they
// apply. Events are logged from any goroutine, some with the library's lock held: the handler must
// not call this package. By default, or with nil, events are discarded, except for warnings, which
// go to the standard error; BANYAN_VERBOSE=1 in the environment prints them there, one per line.
func WithLog(log *slog.Logger) Option {
	return func(o *options) { o.Log = log }
}

// WithDesign chooses the tree design of the world's communicator, and so of all derived from it,
// unless [Comm.SetDesign] changes it. Without it the user's settings decide (BANYAN_COLL_DESIGN),
// rebalance by default. All ranks choose the same.
func WithDesign(d Design) Option { return func(o *options) { o.Design = &d } }

// WithTree chooses the tree in the same way, unless [Comm.SetTree] changes it. Without it the user's
// settings decide (BANYAN_COLL_TREE), [AutoTree] by default. All ranks choose the same.
func WithTree(t Tree) Option {
	return func(o *options) {
		text := t.String()
		o.Tree = &text
	}
}

// WithAlgorithms sets the table by which collectives choose their algorithms if the tree is [AutoTree]: by
// operation, number of ranks, ranks per node and bytes. Its text is a file of ftbench tune coll (docs/tuning.md).
// Operations without a rule use the built-in choice. Without this option the user's settings decide
// (BANYAN_COLL_ALGORITHMS), none by default. All ranks pass the same table, or Init is ErrArgument at each. A wrong
// line is ErrArgument. [Comm.Algorithm] returns the choice in force.
func WithAlgorithms(table string) Option { return func(o *options) { o.Algorithms = &table } }

// WithDebug makes every call check the rules that MPI leaves to the program: types of both sides, buffers
// that change during an operation, collectives that differ among ranks, requests and communicators that are
// left at Finalize (docs/debugging.md). Mistakes are ErrArgument, or a report on the
// standard error. It costs time and a copy of each message. Without this option the user's settings decide
// (BANYAN_DEBUG), off by default. All ranks choose the same, or Init is ErrArgument at each.
func WithDebug(on bool) Option { return func(o *options) { o.Debug = &on } }

func gather(opts []Option) (options, error) {
	var o options
	for _, f := range opts {
		if f == nil {
			return o, fmt.Errorf("%w: nil for an option", ErrArgument)
		}
		f(&o)
	}
	return o, cmp.Or(o.err, o.Check())
}

// ValueOption changes how a value is sent or received.
type ValueOption func(*valueOptions)

type valueOptions struct {
	codec Codec
	limit int
}

// WithCodec chooses the codec, also for plain types. Sender and receiver use the same.
func WithCodec(codec Codec) ValueOption { return func(o *valueOptions) { o.codec = codec } }

// WithValueLimit sets the longest encoding, in bytes, that is received, in place
// of [ValueLimit] and [NestedValueLimit].
func WithValueLimit(bytes int) ValueOption { return func(o *valueOptions) { o.limit = bytes } }

// Codec turns values into bytes and back, for [SendValue] and [RecvValue]. Its
// methods may be called from several goroutines at once.
type Codec interface {
	// Encode gives the encoding of the value that v points to.
	Encode(v any) ([]byte, error)
	// Decode sets the value that v points to from an encoding, which it does not keep. The bytes
	// may be anything, since a peer wrote them.
	Decode(b []byte, v any) error
	// String names the codec in errors.
	String() string
}

// The codecs of the standard library. Gob is the default: it handles Go's types, sends their
// description, and tolerates fields that only one side has. JSON is for peers of another version or
// language, and is readable.
var (
	Gob  Codec = gobCodec{}
	JSON Codec = jsonCodec{}
)

type gobCodec struct{}

func (gobCodec) String() string { return "gob" }

func (gobCodec) Encode(v any) ([]byte, error) {
	var b bytes.Buffer
	err := gob.NewEncoder(&b).Encode(v)
	return b.Bytes(), err
}

func (gobCodec) Decode(b []byte, v any) error {
	if len(b) >= header && b[0] == plainMark {
		return errors.New("the sender's type is plain: use one type on both sides")
	}
	r := bytes.NewReader(b)
	if err := gob.NewDecoder(r).Decode(v); err != nil {
		return err
	}
	if r.Len() > 0 {
		return fmt.Errorf("%d bytes follow the value", r.Len())
	}
	return nil
}

type jsonCodec struct{}

func (jsonCodec) String() string { return "JSON" }

func (jsonCodec) Encode(v any) ([]byte, error) { return json.Marshal(v) }

func (jsonCodec) Decode(b []byte, v any) error { return json.Unmarshal(b, v) }

// Simulation describes a simulated job. The zero value is a fault-aware job on one node with seed
// 0.
type Simulation struct {
	// Seed decides everything random: the same seed gives the same run.
	Seed uint64
	// Configure changes the simulated machine; nil leaves sim.DefaultConfig.
	Configure func(*sim.Config)
	// Faults arranges failures before the run: [Kill], [KillAtStep], [Disconnect], several with
	// [Faults]. nil: none.
	Faults Fault
	// Options are as for Init; the fabric is always the simulator.
	Options []Option
	// Launcher makes the ranks start and end as under a launcher. nil: they have each other's
	// addresses from the start, and Finalize does not wait for the other ranks.
	Launcher *SimulatedLauncher
}

// Fault arranges a failure in the simulated machine before the run. A function of the application
// may use all of package sim, including partitions of the network. [Simulate] returns its error.
type Fault func(machine *sim.Sim) error

// Kill makes a rank die, as by SIGKILL, at a time after the start of the simulation. It has no
// effect on a rank that has ended by then.
func Kill(rank int, at time.Duration) Fault {
	return func(machine *sim.Sim) error {
		return faulty("kill", machine.Kill(proc.ID(rank), fabric.Time(at)))
	}
}

// KillAtStep makes a rank die in place of its n-th step, counted from 1; it has no effect on a rank
// with fewer steps. A step is a call of the rank to the simulated machine that can wait, send or
// observe, so a test that tries each n covers all states in which a rank can die.
func KillAtStep(rank int, n uint64) Fault {
	return func(machine *sim.Sim) error {
		return faulty("kill", machine.KillAtStep(proc.ID(rank), n))
	}
}

// Disconnect makes two ranks unable to reach each other from a time on. Both stay alive and reach
// the other ranks.
func Disconnect(a, b int, at time.Duration) Fault {
	return func(machine *sim.Sim) error {
		return faulty("disconnect", machine.Disconnect(proc.ID(a), proc.ID(b), fabric.Time(at)))
	}
}

// Faults joins several faults.
func Faults(list ...Fault) Fault {
	return func(machine *sim.Sim) error {
		for _, f := range list {
			if err := f(machine); err != nil {
				return err
			}
		}
		return nil
	}
}

// faulty returns the error of a fault that the machine refuses.
func faulty(what string, err error) error {
	if err != nil {
		err = fmt.Errorf("%w: %s: %w", ErrArgument, what, err)
	}
	return err
}

// Simulate runs body as each of n ranks of a job in virtual time, all in this process and one at a
// time, on the same engine as a real job. As under [Run] a rank finalizes when its body returns
// nil, and has failed when it returns an error. Finalize waits for the other ranks only with
// Simulation.Launcher.
//
// The error joins those of the bodies, each with its rank, and the simulator's own: a deadlock, a
// panic in a body, a wrong configuration. A killed rank has no error. A rank that aborted the job,
// or that the failure detector ended ([WithDetection]), has its reason.
func Simulate(n int, s Simulation, body func(*World) error) error {
	o, err := gather(s.Options)
	if err != nil {
		return fmt.Errorf("banyan: %w", err)
	}
	if body == nil {
		return fmt.Errorf("banyan: %w: nil for the body", ErrArgument)
	}
	simulation := job.Simulation{Seed: s.Seed, Configure: s.Configure, Faults: s.Faults}
	if l := s.Launcher; l != nil {
		simulation.Launcher = &job.SimulatedLauncher{Latency: l.Latency, Strict: l.Strict, Late: l.Late}
	}
	return job.Simulate(n, simulation, &o.Options, func(j *job.Job) error {
		w := newWorld(j)
		if err := body(w); err != nil {
			return err
		}
		return w.Finalize()
	})
}

// SimulatedLauncher makes the ranks of a simulation start and end as under a launcher: with the
// fences of Init and of Finalize, and with a request to the launcher before the first contact with
// a rank. The zero value is like ftbench run, with requests that take no time.
type SimulatedLauncher struct {
	// Latency is the time from a request to its reply.
	Latency time.Duration
	// Strict is like Hydra and Slurm: a rank in a fence gets no answers, and a fence waits for
	// failed ranks too.
	Strict bool
	// Late, if set, is the extra delay before a rank enters the fence of that number: 0 … 2 in
	// Init, 3 in Finalize.
	Late func(rank, fence int) time.Duration
}
