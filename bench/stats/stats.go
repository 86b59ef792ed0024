package stats

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// None is the text in place of a number that there is not.
const None = "-"

// Text formats a number for people, with a format of package fmt that may have further words such as a
// unit. A number that is not finite, as a ratio to 0 or the median of nothing, is [None].
func Text(format string, v float64) string {
	if !finite(v) {
		return None
	}
	return fmt.Sprintf(format, v)
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// Median returns the middle of xs, the mean of the two middle ones for an even number, and NaN for
// none.
func Median(xs []float64) float64 {
	s := sorted(xs)
	n := len(s)
	if n == 0 {
		return math.NaN()
	}
	return (s[(n-1)/2] + s[n/2]) / 2
}

// Percentile returns the smallest of xs that at least p percent of them do not exceed (the nearest
// rank). Percentile 0 is the smallest, 100 the largest.
//
// Preconditions: xs is not empty, p is within 0 … 100.
func Percentile[T cmp.Ordered](xs []T, p float64) T {
	rank := int(math.Ceil(p * float64(len(xs)) / 100))
	return sorted(xs)[max(rank, 1)-1]
}

func sorted[T cmp.Ordered](xs []T) []T {
	if slices.IsSorted(xs) {
		return xs
	}
	return slices.Sorted(slices.Values(xs))
}

// Spread is how times are distributed, in ns. Minimum, maximum and mean are exact, percentiles have
// the three significant digits of a [Histogram].
type Spread struct {
	Count int           `json:"count"`
	Min   time.Duration `json:"min_ns"`
	P50   time.Duration `json:"p50_ns"`
	P90   time.Duration `json:"p90_ns"`
	P99   time.Duration `json:"p99_ns"`
	Max   time.Duration `json:"max_ns"`
	Mean  time.Duration `json:"mean_ns"`
}

// SpreadOf is the distribution of times.
func SpreadOf(times ...time.Duration) Spread {
	h := NewHistogram()
	for _, d := range times {
		h.Add(d)
	}
	return h.Spread()
}

// Histogram counts times of 1 ns to an hour in constant memory. A shorter or longer time counts as
// one of these limits.
type Histogram struct {
	h        *hdrhistogram.Histogram
	min, max time.Duration
	sum      float64
}

// NewHistogram returns an empty one.
func NewHistogram() *Histogram {
	return &Histogram{h: hdrhistogram.New(1, int64(time.Hour), 3), min: math.MaxInt64}
}

// Add counts a time.
func (h *Histogram) Add(d time.Duration) {
	d = max(1, min(d, time.Hour))
	_ = h.h.RecordValue(int64(d)) // within the limits
	h.min, h.max, h.sum = min(h.min, d), max(h.max, d), h.sum+float64(d)
}

// Count returns the number of times.
func (h *Histogram) Count() int { return int(h.h.TotalCount()) }

// Percentile returns the time that p percent of the times do not exceed, 0 if there are none.
func (h *Histogram) Percentile(p float64) time.Duration {
	return min(h.max, time.Duration(h.h.ValueAtQuantile(p)))
}

// Spread summarizes the times.
func (h *Histogram) Spread() Spread {
	n := h.Count()
	if n == 0 {
		return Spread{}
	}
	return Spread{
		Count: n, Min: h.min, P50: h.Percentile(50), P90: h.Percentile(90), P99: h.Percentile(99),
		Max: h.max, Mean: time.Duration(h.sum / float64(n)),
	}
}
