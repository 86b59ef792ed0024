package banyan

import (
	"fmt"
	"strings"
	"time"

	"github.com/banyan-hpc/banyan/internal/job"
)

type options struct{ job.Options }

// Option changes what [Init] does by default.
type Option func(*options)

// WithAware chooses between the fault-aware engine (true, the default) and the
// unaware one, which hangs when a peer dies. The unaware one is there to
// measure what awareness costs.
func WithAware(aware bool) Option { return func(o *options) { o.Unaware = !aware } }

// WithProfile chooses the rules that communicators follow after failures, [ULFM] by
// default, where [Comm.SetProfile] does not say otherwise. All ranks should choose the
// same.
func WithProfile(p Profile) Option { return func(o *options) { o.Profile = p } }

// WithFabric restricts the ways on which messages travel: "shm" (shared memory),
// "unix" (Unix-domain sockets), "tcp", or several with commas between them. Other names
// are an error of Init. Each pair of ranks uses the first of shm, unix and tcp that
// joins them and that both may use; that none does is the error of the first
// operation that needs it. Without this option the environment says (BANYAN_FABRIC),
// and else all are allowed. [World.Route] tells what was chosen.
func WithFabric(names string) Option { return func(o *options) { o.Fabric = &names } }

// WithNetworks restricts the addresses at which other machines reach this rank by TCP:
// names of interfaces and networks, as "eth0" or "10.1.0.0/16", with "!" before those
// that are not to be used. Without it the environment says (BANYAN_NETWORKS, with
// commas), and else all interfaces are used that are up.
func WithNetworks(networks ...string) Option {
	list := strings.Join(networks, ",")
	return func(o *options) { o.Networks = &list }
}

// WithEagerLimit sets the longest message, in bytes, that is sent without
// asking the receiver, up to 64 MiB; 0 leaves it to the user's settings
// (docs/tuning.md) and they, by default, to the transport. All ranks may choose
// differently.
func WithEagerLimit(bytes int) Option { return func(o *options) { o.EagerLimit = bytes } }

// WithUnexpectedLimit sets how many bytes of short messages, each counted with
// 256 more, this rank sends to another one before that has said that it has room
// for more, up to 1 GiB; 0 leaves it to the user's settings, 1 MiB by default. A rank keeps no more than about one and a half times
// as much of messages from one sender that it has not received yet; senders
// that have come to the limit go on as for long messages: Send returns when the
// message is received. Set it alike on all ranks. It is at least room for four
// messages of the eager limit.
func WithUnexpectedLimit(bytes int) Option { return func(o *options) { o.UnexpectedLimit = bytes } }

// WithAsyncProgress has a goroutine of the library answer peers while this rank
// computes: long messages and what was promised to be sent go on without a
// call. Without it, the default, they wait for the next call that waits or
// tests. It sleeps until a message comes, and costs a rank that communicates all
// the time up to a wake-up in a millisecond; a rank bound to a single core
// computes less while it answers.
func WithAsyncProgress(on bool) Option {
	return func(o *options) { o.Async = &on }
}

// WithDetection sets how soon ranks that fall silent count as dead: each is to be heard
// of once in a period, and after a timeout, which is at least three periods, counts
// as dead and is made so. Both are whole milliseconds; two zeros turn the detector off:
// then ranks learn of those deaths only that they see for themselves. All ranks of
// a job need the same. Without this option the user's settings say (docs/tuning.md: detect.period, detect.timeout), 500 ms
// and 3 s by default, the timeout 12 s where ranks share cores; in the simulator there is no detector then.
func WithDetection(period, timeout time.Duration) Option {
	return func(o *options) { o.Detection = &job.DetectionTimes{Period: period, Timeout: timeout} }
}

// WithErrorsFatal makes [ErrorsAreFatal] (true) or [ErrorsReturn] (false) the handler
// of the world's communicator from the start, and so of all that are made from it,
// until [Comm.SetErrorHandler] sets another one. MPI's default is the first. Without
// this option the user's settings say (BANYAN_ERRORS), return by default. Errors of
// Init are returned in any case. Ranks may choose differently.
func WithErrorsFatal(fatal bool) Option {
	return func(o *options) { o.ErrorsFatal = &fatal }
}

// WithoutKernelCopy streams large messages through shared memory also where
// the kernel could copy them from process to process.
func WithoutKernelCopy() Option { return func(o *options) { o.NoKernelCopy = true } }

// WithLog receives the library's remarks, a line each: by which fabric a peer is
// reached and why by no faster one, how large messages travel, strangers refused. The
// default discards them; with BANYAN_VERBOSE=1 in the environment it prints them on
// the standard error.
func WithLog(logf func(format string, args ...any)) Option {
	return func(o *options) { o.Logf = logf }
}

// WithDesign chooses the design of the world's communicator, and so of all that are made from it, where [Comm.SetDesign] does
// not say otherwise. Without it the user's settings say (BANYAN_COLL_DESIGN), rebalance by default. All ranks choose the same.
func WithDesign(d Design) Option { return func(o *options) { o.Design = &d } }

// WithTree chooses the trees in the same way, by a word as of [Comm.SetTree]. Without it the user's settings say
// (BANYAN_COLL_TREE), auto by default.
func WithTree(text string) Option { return func(o *options) { o.Tree = &text } }

func gather(opts []Option) (options, error) {
	var o options
	for _, f := range opts {
		if f == nil {
			return o, fmt.Errorf("%w: nil for an option", ErrArgument)
		}
		f(&o)
	}
	return o, o.Check()
}
