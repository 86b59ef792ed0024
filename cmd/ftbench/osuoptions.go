package main

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/banyan-hpc/banyan/bench/budget"
	"github.com/banyan-hpc/banyan/bench/osu"
)

// osuCommon are the options of all but init. The letters are those of OSU, and its long names are
// accepted beside Banyan's.
type osuCommon struct {
	Bench *osu.Benchmark `kong:"-"`

	N          int            `short:"n" type:"ranks" placeholder:"RANKS" help:"Number of ranks that are started. Default: 2, or two for each of --pairs."`
	Iterations *int           `short:"i" placeholder:"N" help:"Iterations per size. Default: as OSU, fewer above 8 KiB."`
	Warmup     *int           `short:"x" placeholder:"N" help:"Iterations before the clock starts. Default: as OSU."`
	MinTime    time.Duration  `help:"Raise the iterations until a size takes so long. Default: do not."`
	MaxTime    *time.Duration `placeholder:"DURATION" help:"Lower the iterations where a size would take longer, as on a slow network, and end before sizes of which not one fits. Default: 10s; without bound with -i, with --fabric sim, or as 0."`
	quickFlag
	Tail      bool `short:"z" aliases:"tail-lat" help:"Add columns with the 50th, 90th and 99th percentile; from a pass of their own, but of collectives."`
	Precision int  `default:"2" help:"Digits after the point; OSU prints 2."`
	fabricFlags
	Aware bool   `default:"true" negatable:"" help:"Fault-aware engine; --aware=false is the baseline that hangs when a peer dies."`
	JSON  string `placeholder:"FILE" help:"Store the results and the environment; -: print them, and the table on standard error."`
}

// osuOptions are those of all that have data.
type osuOptions struct {
	osuCommon
	Sizes          string   `short:"m" aliases:"message-size" placeholder:"[MIN:]MAX" help:"Sizes in bytes; MIN: and :MAX are possible. Default: as OSU, up to 4 MiB, of collectives 1 MiB."`
	Validate       bool     `short:"c" aliases:"validation" help:"Check every byte, in a pass of its own."`
	Types          []string `short:"T" name:"type" placeholder:"TYPE" help:"mpi_char, mpi_int or mpi_float, one or several, or all: the unit of sizes and the type of sums. Default: bytes, and sums of mpi_int."`
	ValidateWarmup int      `short:"u" name:"validation-warmup" placeholder:"N" help:"Iterations before each that -c checks, 0 to 10. Default: 0, as those are not timed; OSU's 5."`
}

// osuOption is an option that only some commands have.
type osuOption interface {
	apply(*osu.Options, *osuTable) error
}

// The options that only some have.
type (
	windowOption struct {
		Window *int `short:"W" aliases:"window-size" placeholder:"N" xor:"window" help:"Messages in flight, in each direction. Default: 64."`
	}
	varyOption struct {
		VaryWindow bool   `short:"V" xor:"window" help:"Measure each size with windows of 1, 2, 4 … 128 messages; one column for each."`
		PrintRate  string `short:"R" enum:"0,1" default:"1" help:"1: print messages per second too, 0: do not. Default: ${default}."`
	}
	bufferOption struct {
		Buffers string `short:"b" name:"buffer-num" enum:"single,multiple" default:"single" help:"multiple: each message of a window has a buffer of its own, and each size has new ones. Default: ${default}."`
	}
	pairsOption struct {
		Pairs int `short:"p" aliases:"num-pairs" placeholder:"N" help:"Pairs of ranks: rank i with rank N+i. Default: all ranks."`
	}
	threadsOption struct {
		Threads string `short:"t" aliases:"num-test-calls" default:"2" placeholder:"[SEND:]RECV" help:"Goroutines that send and wait, on rank 0, and that receive and answer, on rank 1. Default 1:2."`
	}
	memoryOption struct {
		MemLimit int `short:"M" default:"536870912" placeholder:"BYTES" help:"Memory of a rank for the longest buffer; larger sizes are left out. At least 1 MiB. Default: 512 MiB."`
	}
	fullOption struct {
		Full bool `short:"f" help:"Add columns with the least and the most of the ranks' means, and the iterations."`
	}
	rootOption struct {
		Root string `short:"k" name:"root-rank" placeholder:"fixed:RANK" help:"The rank that has the data or gets the result; rotate: another one in each call. Default: fixed:0."`
	}
	placeOption struct {
		InPlace bool `short:"l" name:"in-place" help:"A rank gives its data where its result lies, as with MPI_IN_PLACE."`
	}
	overlapOption struct {
		Full  bool `short:"f" help:"Add columns with the parts of the time, and the least and the most of the ranks' means of the communication alone."`
		Tests int  `short:"t" name:"num-test-calls" placeholder:"CALLS" help:"Test the request so often during the computation. Default: 0."`
	}
	neighborsOption struct {
		Neighborhood string `short:"N" default:"cart:1:1" placeholder:"cart:DIMENSIONS:RADIUS" help:"The ranks lie in a periodic grid; the neighbours of each are those up to RADIUS away along each dimension, in both directions. Default: ${default}."`
	}
)

// remoteOptions are those of windows.
type remoteOptions struct {
	Creation windowKind `name:"win-option" short:"w" placeholder:"KIND" help:"Memory of the window: allocate, by the library, or create, the program's. Default: allocate."`
	Sync     windowSync `name:"sync-option" short:"s" placeholder:"KIND" help:"flush; lock, lock_all: a lock for each iteration; pscw (start, complete, post and wait), fence: the other rank calls too. Default: flush, of put_bibw pscw."`
}

// windowKind and windowSync are words that osu.Benchmark.Check validates.
type (
	windowKind osu.Creation
	windowSync osu.Synchronization
)

// choices are for the shell.
func (windowKind) choices() []string { return wordsOfOSU(osu.Creations) }

// choices are for the shell.
func (windowSync) choices() []string { return wordsOfOSU(osu.Synchronizations) }

func wordsOfOSU[T ~string](all []T) (words []string) {
	for _, w := range all {
		words = append(words, string(w))
	}
	return words
}

func (b bufferOption) apply(o *osu.Options, _ *osuTable) error {
	o.Multiple = b.Buffers == "multiple"
	return nil
}

func (f memoryFlag) apply(o *osu.Options, _ *osuTable) error {
	o.Registered, o.Lent = f.registered(), f.lent()
	return nil
}

func (w windowOption) apply(o *osu.Options, _ *osuTable) error {
	if w.Window != nil {
		o.Window = *w.Window
	}
	return nil
}

func (v varyOption) apply(o *osu.Options, look *osuTable) error {
	if v.VaryWindow {
		o.Windows = []int{1, 2, 4, 8, 16, 32, 64, 128} // OSU's
	}
	look.withoutRate = v.PrintRate == "0"
	return nil
}

func (p pairsOption) apply(o *osu.Options, _ *osuTable) error {
	o.Pairs = p.Pairs
	return nil
}

func (m memoryOption) apply(o *osu.Options, _ *osuTable) error {
	o.MemoryLimit = m.MemLimit
	return nil
}

func (f fullOption) apply(_ *osu.Options, look *osuTable) error {
	look.full = f.Full
	return nil
}

func (f overlapOption) apply(o *osu.Options, look *osuTable) error {
	o.Tests, look.full = f.Tests, f.Full
	return nil
}

func (p placeOption) apply(o *osu.Options, _ *osuTable) error {
	o.InPlace = p.InPlace
	return nil
}

func (r rootOption) apply(o *osu.Options, _ *osuTable) (err error) {
	if r.Root == "" {
		return nil
	}
	if o.Root, err = osu.ParseRoot(r.Root); err != nil {
		return usagef("-k: %v", err)
	}
	return nil
}

func (n neighborsOption) apply(o *osu.Options, _ *osuTable) (err error) {
	o.Grid, err = osu.ParseGrid(n.Neighborhood)
	return usage(err)
}

func (c remoteOptions) apply(o *osu.Options, _ *osuTable) error {
	o.Creation = osu.Creation(cmp.Or(string(c.Creation), string(o.Creation)))
	o.Sync = osu.Synchronization(cmp.Or(string(c.Sync), string(o.Sync)))
	return nil
}

// apply reads OSU's -t: [SENDERS:]RECEIVERS.
func (t threadsOption) apply(o *osu.Options, _ *osuTable) error {
	receivers := t.Threads
	var err error
	if senders, rest, several := strings.Cut(t.Threads, ":"); several {
		receivers = rest
		o.Senders, err = strconv.Atoi(senders)
	}
	n, failed := strconv.Atoi(receivers)
	if err != nil || failed != nil {
		return usagef("-t %s: RECEIVERS or SENDERS:RECEIVERS is needed, such as 4:4", t.Threads)
	}
	o.Receivers = n
	return nil
}

// maxTime is how long a size may take by default: more than OSU's iterations take on networks of
// some Gbit/s.
const maxTime = 10 * time.Second

// common sets the common options that were given.
func (c *osuOptions) common(o *osu.Options) error {
	if err := parseSizes(c.Sizes, &o.Min, &o.Max); err != nil {
		return err
	}
	if c.Iterations != nil {
		o.Iterations, o.IterationsLarge = *c.Iterations, *c.Iterations
	}
	if c.Warmup != nil {
		o.Warmup, o.WarmupLarge = *c.Warmup, *c.Warmup
	}
	o.ValidateWarmup = c.ValidateWarmup
	o.Validate, o.MinTime, o.Budget = c.Validate, c.MinTime, budget.Shared()
	switch {
	case c.MaxTime != nil:
		o.MaxTime = *c.MaxTime
	case c.Iterations == nil && !c.simulated():
		o.MaxTime = maxTime
	}
	if c.Tail {
		o.Percentiles = []int{50, 90, 99}
	}
	if c.Quick {
		o.Iterations, o.IterationsLarge = (o.Iterations+9)/10, (o.IterationsLarge+9)/10
		o.MinTime = min(o.MinTime, 20*time.Millisecond)
		if !c.simulated() {
			o.MaxTime = min(cmp.Or(o.MaxTime, time.Second), time.Second)
		}
	}
	return nil
}

// time is about how long the sizes take: the passes and the warm-up of each.
func (c *osuOptions) time(o osu.Options) (all time.Duration) {
	passes := 1.1
	if c.Tail {
		passes++
	}
	if c.Validate {
		passes++
	}
	for size := max(1, o.Min); size <= max(1, o.Max); size *= 2 {
		n := o.Iterations
		if size > osu.LargeAbove {
			n = o.IterationsLarge
		}
		messages := max(1, o.Window) * max(1, len(o.Windows)) * c.N
		each := time.Duration(messages) * (300*time.Nanosecond + time.Duration(size)/8)
		mean := max(time.Duration(n)*each, o.MinTime*5/4)
		if o.MaxTime > 0 {
			mean = min(mean, o.MaxTime)
		}
		all += time.Duration(passes * float64(mean))
	}
	return all
}

// parseSizes reads OSU's -m: MAX, MIN:MAX, MIN: or :MAX.
func parseSizes(text string, smallest, largest *int) error {
	low, high, ok := strings.Cut(text, ":")
	if !ok {
		low, high = "", text
	}
	for _, part := range []struct {
		text string
		to   *int
	}{{low, smallest}, {high, largest}} {
		if part.text == "" {
			continue
		}
		n, err := strconv.Atoi(part.text)
		if err != nil || n < 0 {
			return usagef("sizes %s: %q is no number of bytes: [MIN:]MAX is needed", text, part.text)
		}
		*part.to = n
	}
	return nil
}
