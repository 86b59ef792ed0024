package osu

import (
	"fmt"
	"time"

	"github.com/banyan-hpc/banyan"
)

// Options of a sweep over sizes. Start from [LatencyDefaults] or
// [BandwidthDefaults].
type Options struct {
	// Min and Max are sizes in bytes: Min, twice Min, … up to Max. After 0 comes 1.
	Min int `json:"min"`
	Max int `json:"max"`
	// Iterations and Warmup are for sizes up to LargeAbove bytes, the others for
	// those above.
	Iterations      int `json:"iterations"`
	Warmup          int `json:"warmup"`
	IterationsLarge int `json:"iterations_large"`
	WarmupLarge     int `json:"warmup_large"`
	// Window is the number of messages in flight; Latency ignores it.
	Window int `json:"window"`
	// MinTime is how long the counted iterations of a size take at least: their
	// number is raised as needed. 0 keeps the number.
	MinTime time.Duration `json:"min_time_ns"`
	// Validate checks every byte in a pass of its own.
	Validate bool `json:"validate"`
	// Percentiles, in percent, are computed in a pass of their own.
	Percentiles []int `json:"percentiles,omitempty"`
}

// LargeAbove is the size in bytes above which the iterations for large messages
// are used, OSU's LARGE_MESSAGE_SIZE.
const LargeAbove = 8192

// maxSize bounds a message: two buffers of it are allocated per process.
const maxSize = 1 << 30

// LatencyDefaults are OSU's: 1 byte to 4 MiB, 10000 and 1000 iterations.
func LatencyDefaults() Options {
	return Options{Min: 1, Max: 4 << 20, Iterations: 10000, Warmup: 100, IterationsLarge: 1000, WarmupLarge: 10, Window: 1}
}

// BandwidthDefaults are OSU's: 1 byte to 4 MiB, windows of 64, 100 and 20
// iterations.
func BandwidthDefaults() Options {
	return Options{Min: 1, Max: 4 << 20, Iterations: 100, Warmup: 10, IterationsLarge: 20, WarmupLarge: 2, Window: 64}
}

// Check reports the first option that makes no sense, and what would.
func (o *Options) Check() error {
	switch {
	case o.Min < 0 || o.Max < o.Min || o.Max > maxSize:
		return fmt.Errorf("osu: sizes %d:%d: 0 ≤ smallest ≤ largest ≤ %d is needed", o.Min, o.Max, maxSize)
	case o.Iterations < 1 || o.IterationsLarge < 1:
		return fmt.Errorf("osu: %d iterations: at least 1 is needed", min(o.Iterations, o.IterationsLarge))
	case o.Warmup < 0 || o.WarmupLarge < 0:
		return fmt.Errorf("osu: %d warm-up iterations: at least 0 are needed", min(o.Warmup, o.WarmupLarge))
	case o.MinTime < 0:
		return fmt.Errorf("osu: at least %v per size: a time from 0 on is needed", o.MinTime)
	case o.Window < 1 || o.Window > 1<<16:
		return fmt.Errorf("osu: a window of %d messages: 1 to %d are possible", o.Window, 1<<16)
	}
	for _, p := range o.Percentiles {
		if p < 0 || p > 100 {
			return fmt.Errorf("osu: percentile %d is not in 0…100", p)
		}
	}
	return nil
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
	// Seconds per message: half a round trip, or a window's time over the window.
	Seconds float64 `json:"seconds"`
	// Percentiles of the same, one for each that was asked for. Of bandwidth they
	// are of time too: a high one is a slow window.
	Percentiles []float64 `json:"percentiles,omitempty"`
	// Errors counts bytes that arrived wrong, on both sides.
	Errors int `json:"errors"`
}

// Micros is the time per message in µs.
func (p Point) Micros() float64 { return 1e6 * p.Seconds }

// MBps is the bandwidth in 10⁶ bytes per second, OSU's unit.
func (p Point) MBps() float64 { return float64(p.Size) / p.Seconds / 1e6 }

// MBpsAt is the bandwidth at the i-th percentile of time.
func (p Point) MBpsAt(i int) float64 { return float64(p.Size) / p.Percentiles[i] / 1e6 }

// twoRanks is the precondition of both benchmarks.
func twoRanks(w *banyan.World) error {
	if n := w.Comm().Size(); n != 2 {
		return fmt.Errorf("osu: the job has %d ranks, exactly 2 are needed: start with -n 2", n)
	}
	return nil
}
