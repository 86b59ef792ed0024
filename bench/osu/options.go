package osu

import (
	"errors"
	"fmt"
	"time"

	"github.com/banyan-hpc/banyan/bench/budget"
)

// Options of a run. Start from [Benchmark].Defaults.
type Options struct {
	// Min and Max are sizes in bytes: Min, twice Min, … up to Max. After 0 comes 1.
	Min int `json:"min"`
	Max int `json:"max"`
	// Iterations and Warmup are for sizes up to LargeAbove bytes, the others for those above.
	Iterations      int `json:"iterations"`
	Warmup          int `json:"warmup"`
	IterationsLarge int `json:"iterations_large"`
	WarmupLarge     int `json:"warmup_large"`
	// Window is the number of messages in flight, in each direction that has any.
	Window int `json:"window,omitempty"`
	// Windows are measured one after the other at each size, in place of Window.
	Windows []int `json:"windows,omitempty"`
	// Pairs is how many pairs of ranks measure at once: rank i with rank Pairs+i. 0: all ranks of
	// the job.
	Pairs int `json:"pairs,omitempty"`
	// Senders and Receivers are numbers of goroutines, on rank 0 and on rank 1. Iterations are rounded up to a
	// multiple of Senders.
	Senders   int `json:"senders,omitempty"`
	Receivers int `json:"receivers,omitempty"`
	// Tests is how often a request is tested during the computation beside a non-blocking collective.
	Tests int `json:"tests,omitempty"`
	// Type is the unit of sizes, and the type of sums. Without it these are bytes, and sums are of [Int].
	Type Datatype `json:"type,omitempty"`
	// Registered takes memory of [banyan.Alloc] for messages between pairs.
	Registered bool `json:"registered,omitempty"`
	// Lent sends messages between pairs, and those of a broadcast, as loans, which receivers return unread; with
	// Registered.
	Lent bool `json:"lent,omitempty"`
	// Multiple takes a buffer of its own for each message of a window, and new ones for each size.
	Multiple bool `json:"multiple_buffers,omitempty"`
	// Persistent takes persistent requests for messages between pairs.
	Persistent bool `json:"persistent,omitempty"`
	// Creation and Sync are of windows of memory.
	Creation Creation        `json:"creation,omitempty"`
	Sync     Synchronization `json:"sync,omitempty"`
	// Root is of a gather, a scatter or a reduction, as far as OSU's programs have it.
	Root Root `json:"root,omitzero"`
	// InPlace has each rank give its data where its result lies, or get it there, as MPI_IN_PLACE does.
	InPlace bool `json:"in_place,omitempty"`
	// Grid is which ranks are neighbours, in collectives among these.
	Grid Grid `json:"grid,omitzero"`
	// MinTime is how long the counted iterations of a size take at least: their number is raised as
	// needed. 0 keeps the number.
	MinTime time.Duration `json:"min_time_ns"`
	// MaxTime is how long the counted iterations of a size may take, about: where the warm-up shows
	// that they would take longer there are fewer, at least one, and the sweep ends with a
	// [*CutError] before a size of which not one would fit. 0, or a run without warm-up: no bound.
	MaxTime time.Duration `json:"max_time_ns,omitempty"`
	// Budget bounds the whole sweep, which ends with a [*CutError] when the time is over, but not before
	// the first size.
	Budget budget.Budget `json:"-"`
	// Validate checks every byte in a pass of its own.
	Validate bool `json:"validate"`
	// ValidateWarmup is how many iterations, of which nothing is checked, come before each that is.
	ValidateWarmup int `json:"validate_warmup,omitempty"`
	// MemoryLimit bounds the bytes of a collective's longest buffer, see [Benchmark.Bounded]. 0: no bound.
	MemoryLimit int `json:"memory_limit,omitempty"`
	// Percentiles, in percent, are computed in a pass of their own.
	Percentiles []int `json:"percentiles,omitempty"`
}

// LargeAbove is the size in bytes above which the iterations for large messages are used, OSU's
// LARGE_MESSAGE_SIZE.
const LargeAbove = 8192

const (
	// maxSize bounds a message: two buffers of it are allocated per process.
	maxSize = 1 << 30
	// maxWindow bounds the messages in flight.
	maxWindow = 1 << 16
	// maxValidateWarmup bounds the warm-up before each validated iteration, as OSU does.
	maxValidateWarmup = 10
	// leastMemory is the least memory limit that has an effect, as in OSU.
	leastMemory = 1 << 20
	// maxTests bounds the tests during a computation: each reads the clock twice.
	maxTests = 1 << 20
	// maxThreads bounds the goroutines of one side, as OSU does; each has two buffers.
	maxThreads = 128
)

// OSU's defaults: 1 byte to 4 MiB.
var (
	latencyDefaults = Options{Min: 1, Max: 4 << 20, Iterations: 10000, Warmup: 100, IterationsLarge: 1000,
		WarmupLarge: 10}
	bandwidthDefaults = Options{Min: 1, Max: 4 << 20, Iterations: 100, Warmup: 10, IterationsLarge: 20, WarmupLarge: 2,
		Window: 64}
	threadDefaults = Options{Min: 1, Max: 4 << 20, Iterations: 10000, Warmup: 100, IterationsLarge: 1000,
		WarmupLarge: 10,
		Senders:     1, Receivers: 2}
	// Of collectives up to 1 MiB; a barrier has no size.
	bcastDefaults = Options{Min: 1, Max: 1 << 20, Iterations: 1000, Warmup: 100, IterationsLarge: 100,
		WarmupLarge: 10}
	allreduceDefaults = Options{Min: 1, Max: 1 << 20, Iterations: 1000, Warmup: 100, IterationsLarge: 100,
		WarmupLarge: 10}
	// Of windows, which begin with 1 byte too; both ranks can only access at once where both call.
	remoteLatency   = latencyDefaults.on(SyncFlush)
	remoteBandwidth = bandwidthDefaults.on(SyncFlush)
	remoteBothWays  = bandwidthDefaults.on(SyncPSCW)
	atomicLatency   = remoteLatency.of(word)
	barrierDefaults = Options{Iterations: 1000, Warmup: 100, IterationsLarge: 1000, WarmupLarge: 100}
)

// prepared are the options with persistent requests.
func (o Options) prepared() Options {
	o.Persistent = true
	return o
}

// on are the options with a window that the library allocates.
func (o Options) on(sync Synchronization) Options {
	o.Creation, o.Sync = AllocateWindow, sync
	return o
}

// of are the options with one size.
func (o Options) of(size int) Options {
	o.Min, o.Max = size, size
	return o
}

// check reports the first invalid option, and the valid values.
func (o *Options) check() error {
	switch {
	case o.Min < 0 || o.Max < o.Min || o.Max > maxSize:
		return fmt.Errorf("sizes %d:%d: 0 ≤ smallest ≤ largest ≤ %d is needed", o.Min, o.Max, maxSize)
	case o.Iterations < 1 || o.IterationsLarge < 1:
		return fmt.Errorf("%d iterations: at least 1 is needed", min(o.Iterations, o.IterationsLarge))
	case o.Warmup < 0 || o.WarmupLarge < 0:
		return fmt.Errorf("%d warm-up iterations: at least 0 are needed", min(o.Warmup, o.WarmupLarge))
	case o.MinTime < 0:
		return fmt.Errorf("at least %v per size: a time from 0 on is needed", o.MinTime)
	case o.MaxTime < 0:
		return fmt.Errorf("at most %v per size: a time from 0 on is needed, and 0 is no bound", o.MaxTime)
	case o.ValidateWarmup < 0 || o.ValidateWarmup > maxValidateWarmup:
		return fmt.Errorf("%d warm-up iterations before each validated one: 0 to %d are possible", o.ValidateWarmup,
			maxValidateWarmup)
	case o.MemoryLimit < 0:
		return fmt.Errorf("a memory limit of %d bytes: a number from 0 on is needed, and 0 is no bound", o.MemoryLimit)
	case o.Lent && (!o.Registered || o.Validate):
		return errors.New("loans are of registered memory, and not read: leave out the check of bytes")
	case o.Multiple && o.Registered:
		return errors.New("registered memory is one buffer: leave it out, or measure with a single buffer")
	case o.Lent && o.Persistent:
		return errors.New("loans are no persistent requests: measure latency, bw with loans")
	case o.Pairs < 0:
		return fmt.Errorf("%d pairs: at least 1 is needed, or 0 for all ranks", o.Pairs)
	}
	for _, p := range o.Percentiles {
		if p < 0 || p > 100 {
			return fmt.Errorf("percentile %d is not in 0…100", p)
		}
	}
	return nil
}

// checkKind reports the first option that makes no sense for this kind.
func (b *Benchmark) checkKind(o *Options) error {
	unit := b.unit(o)
	for _, window := range o.windows() {
		if b.Windowed && (window < 1 || window > maxWindow) {
			return fmt.Errorf("a window of %d messages: 1 to %d are possible", window, maxWindow)
		}
	}
	switch {
	case o.Tests < 0 || o.Tests > maxTests:
		return fmt.Errorf("%d tests during a computation: 0 to %d are possible", o.Tests, maxTests)
	case o.Root != (Root{}) && !b.op.rooted:
		return fmt.Errorf("root %v: it has none that can be chosen", o.Root)
	case o.InPlace && !b.op.inPlace:
		return errors.New("in place: it has no such form")
	case o.Tests > 0 && b.op.start == nil:
		return fmt.Errorf("%d tests during a computation: it has none", o.Tests)
	case b.op.around && o.Grid.check() != nil:
		return o.Grid.check()
	case len(o.Windows) > 0 && !b.Windowed:
		return fmt.Errorf("windows of %v messages: it has none", o.Windows)
	case o.Type != "" && b.OneSided:
		return errors.New("operations on windows have no data type to choose: leave it out")
	case o.Type != "" && o.Type.Check() != nil:
		return o.Type.Check()
	case unit > 1 && o.first(unit)%unit != 0:
		return fmt.Errorf("sizes %d:%d: whole numbers of %d bytes are needed: begin at a multiple of it", o.Min, o.Max,
			unit)
	case unit > 1 && o.Max < o.first(unit):
		return fmt.Errorf("sizes %d:%d: a number has %d bytes", o.Min, o.Max, unit)
	case b.Threaded && (o.Senders < 1 || o.Senders > maxThreads || o.Receivers < 1 || o.Receivers > maxThreads):
		return fmt.Errorf("%d receiving and %d sending threads: 1 to %d of each are possible", o.Receivers, o.Senders,
			maxThreads)
	}
	return nil
}

// next is the size that follows another.
func next(size int) int { return max(1, 2*size) }

// first is the first of the sizes that holds an element of so many bytes; of single bytes none need
// be there.
func (o *Options) first(unit int) int {
	size := o.Min
	for unit > 1 && size < unit {
		size = next(size)
	}
	return size
}

// unit is the length in bytes of an element that has so many without Type.
func (o *Options) unit(without int) int {
	if o.Type == "" || without == 0 {
		return without
	}
	return o.Type.size()
}

// unit is the length in bytes of an element, 0 if there is no data.
func (b *Benchmark) unit(o *Options) int {
	if b.Collective {
		return o.unit(b.op.unit)
	}
	return o.unit(1)
}

// windows are the windows that are measured at each size.
func (o *Options) windows() []int {
	if len(o.Windows) > 0 {
		return o.Windows
	}
	return []int{o.Window}
}

// counts returns the iterations and the warm-up for a size.
func (o *Options) counts(size int) (iterations, warmup int) {
	if size > LargeAbove {
		return o.IterationsLarge, o.WarmupLarge
	}
	return o.Iterations, o.Warmup
}

// Point is the result for one size.
type Point struct {
	Size       int `json:"size"`       // bytes
	Iterations int `json:"iterations"` // counted ones
	// Type is the data type, where it was chosen.
	Type Datatype `json:"type,omitempty"`
	// Window is the number of messages in flight, where that was varied.
	Window int `json:"window,omitempty"`
	// Seconds per message. Of a latency: half a round trip, the mean over the pairs and the
	// threads. Of a collective: a call, the mean over the ranks. Of a bandwidth: the time over the
	// messages of all pairs and both directions.
	Seconds float64 `json:"seconds"`
	// Least and Most, of collectives: the means of the rank with the shortest calls and of the one
	// with the longest, in seconds.
	Least float64 `json:"min_seconds,omitempty"`
	Most  float64 `json:"max_seconds,omitempty"`
	// Overlap is of non-blocking collectives; Seconds, Least and Most are then of the communication alone, and
	// Percentiles of the calls beside a computation.
	Overlap *Overlap `json:"overlap,omitempty"`
	// Percentiles of the same, one for each that was asked for, over the iterations of all pairs,
	// or the calls of all ranks. Of bandwidth they are of time too: a high one is a slow window, and
	// a window's time is over the messages of its own pair.
	Percentiles []float64 `json:"percentiles,omitempty"`
	// Errors counts bytes that arrived wrong, on all ranks.
	Errors int `json:"errors"`
}

// sizes is the number of sizes from one on.
func (o *Options) sizes(size int) (n int) {
	for ; size <= o.Max; size = next(size) {
		n++
	}
	return n
}
