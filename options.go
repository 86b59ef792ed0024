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

	"github.com/banyan-hpc/banyan/internal/job"
)

type options struct {
	job.Options
	ctx context.Context // of Init; nil: none was given
	err error           // of an option
}

// Option changes what [Init] does by default.
type Option func(*options)

// WithAware chooses between the fault-aware engine (true, the default) and the unaware one, which
// hangs when a peer fails. The unaware one exists to measure the cost of awareness.
func WithAware(aware bool) Option { return func(o *options) { o.Unaware = !aware } }

// WithContext has [Init] end with the context, with an error that wraps ctx.Err(). It bounds the start
// alone: later calls end with the contexts of their communicators ([Comm.WithContext]), and
// [World.Finalize] with none. A simulation, which has no start to wait for, ignores it. A nil context is
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

// The options have one form: WithX(value), where a list has one argument for each element, and the
// last of several of one name counts. Without an option the user's settings decide (docs/tuning.md).

// WithFabrics restricts the fabrics: "shm" (shared memory), "unix" (Unix-domain sockets), "tcp".
// Other names, and none, are an error of Init. Each pair of ranks uses the first of shm, unix and
// tcp that joins them and that both allow. If none does the first operation that needs the pair
// fails. Without this option BANYAN_FABRIC decides (separated by commas); by default all are
// allowed. [World.Route] reports the choice.
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
// it to the user's settings (docs/tuning.md) and these, by default, to the transport. Ranks may
// choose differently.
func WithEagerLimit(bytes int) Option { return func(o *options) { o.EagerLimit = bytes } }

// WithUnexpectedLimit sets how many bytes of eager messages, each counted with 256 more, this rank
// sends to another one before that grants more, up to 1 GiB. 0 leaves it to the user's settings, 1
// MiB by default. A receiver keeps at most about one and a half times as much of unexpected
// messages from one sender. A sender at the limit continues as for long messages: Send returns when
// the message is received. Set it alike on all ranks. It has room for at least four messages of the
// eager limit.
func WithUnexpectedLimit(bytes int) Option { return func(o *options) { o.UnexpectedLimit = bytes } }

// WithAsyncProgress starts a progress goroutine, which answers peers while this rank computes:
// rendezvous transfers and queued messages proceed without a call. Without it, the default, they
// wait for the next call that waits or tests. The goroutine sleeps until a message comes. It costs
// a rank that communicates all the time up to one wake-up in a millisecond; a rank bound to a
// single core computes less while it answers.
func WithAsyncProgress(on bool) Option {
	return func(o *options) { o.Async = &on }
}

// WithDetection sets the times of the failure detector. Each rank sends a heartbeat once in a
// period; a rank that is silent for a timeout, at least three periods, counts as failed and is
// killed if necessary. Both are whole milliseconds. Two zeros turn the detector off: then a rank
// learns only of the failures that it observes itself. All ranks of a job need the same times.
// Without this option the user's settings decide (docs/tuning.md: detect.period, detect.timeout),
// 500 ms and 3 s by default, with a timeout of 12 s where ranks share cores. In the simulator there
// is no detector without this option.
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
// faster ones, the protocol of large messages, rejected connections, and with level Warn what needs
// attention. Attributes are "rank", "peer" (a rank), "fabric" and "reason", as far as they apply.
// Events are logged from any goroutine, some with the library's lock held: the handler calls nothing
// of this package. By default, or with nil, they are discarded, apart from warnings, which go to the
// standard error; BANYAN_VERBOSE=1 in the environment prints them there, one per line.
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

// WithDebug makes every call check what MPI leaves to the program: types of both sides, buffers that
// change during an operation, collectives that differ among ranks, requests and communicators that
// are left at Finalize (docs/guide.md, "Finding mistakes"). Mistakes are ErrArgument, or a report on
// the standard error. It costs time and a copy of each message. Without this option the user's
// settings decide (BANYAN_DEBUG), off by default. All ranks choose the same, or Init is ErrArgument at each.
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
	// may be anything: a peer wrote them.
	Decode(b []byte, v any) error
	// String names the codec in errors.
	String() string
}

// The codecs of the standard library. Gob is the default: it knows Go's types, sends their
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
