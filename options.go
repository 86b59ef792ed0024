package banyan

import (
	"fmt"

	"github.com/banyan-hpc/banyan/settings"
)

type options struct {
	unaware bool
	fabric  string
	eager   int
	noGet   bool
	early   int
	async   async
	logf    func(format string, args ...any)
}

// Option changes what [Init] does by default.
type Option func(*options)

// WithAware chooses between the fault-aware engine (true, the default) and the
// unaware one, which hangs when a peer dies. The unaware one is there to
// measure what awareness costs.
func WithAware(aware bool) Option { return func(o *options) { o.unaware = !aware } }

// WithFabric restricts the transport: "shm" (the default on one node). Other
// names are an error of Init.
func WithFabric(name string) Option { return func(o *options) { o.fabric = name } }

// WithEagerLimit sets the longest message, in bytes, that is sent without
// asking the receiver, up to 64 MiB; 0 leaves it to the user's settings
// (docs/tuning.md) and they, by default, to the transport. All ranks may choose
// differently.
func WithEagerLimit(bytes int) Option { return func(o *options) { o.eager = bytes } }

// WithUnexpectedLimit sets how many bytes of short messages, each counted with
// 256 more, this rank sends to another one before that has said that it has room
// for more, up to 1 GiB; 0 leaves it to the user's settings, 1 MiB by default. A rank keeps no more than about one and a half times
// as much of messages from one sender that it has not received yet; senders
// that have come to the limit go on as for long messages: Send returns when the
// message is received. Set it alike on all ranks. It is at least room for four
// messages of the eager limit.
func WithUnexpectedLimit(bytes int) Option { return func(o *options) { o.early = bytes } }

// WithAsyncProgress has a goroutine of the library answer peers while this rank
// computes: long messages and what was promised to be sent go on without a
// call. Without it, the default, they wait for the next call that waits or
// tests. It sleeps until a message comes, and costs a rank that communicates all
// the time up to a wake-up in a millisecond; a rank bound to a single core
// computes less while it answers.
func WithAsyncProgress(on bool) Option {
	return func(o *options) {
		o.async = asyncOff
		if on {
			o.async = asyncOn
		}
	}
}

// async is what WithAsyncProgress has said; the zero value leaves it open.
type async int

const (
	asyncOpen async = iota
	asyncOff
	asyncOn
)

// WithoutKernelCopy streams large messages through shared memory also where
// the kernel could copy them from process to process.
func WithoutKernelCopy() Option { return func(o *options) { o.noGet = true } }

// WithLog receives the library's remarks, a line each: how large messages
// travel, strangers refused. The default discards them.
func WithLog(logf func(format string, args ...any)) Option {
	return func(o *options) { o.logf = logf }
}

func gather(opts []Option) (options, error) {
	o := options{fabric: "shm"}
	for _, f := range opts {
		f(&o)
	}
	if o.fabric != "shm" {
		return o, fmt.Errorf("%w: fabric %q, want shm (the simulator is started by Simulate)", ErrArgument, o.fabric)
	}
	return o, o.override(settings.Defaults())
}
