package paper

import (
	"fmt"
	"math"

	"github.com/banyan-hpc/banyan/bench/stats"
)

// value is a median of n observations with its 95 % interval. Without observations it has not been
// measured, without bounded there is no interval.
type value struct {
	median, low, high float64
	bounded           bool
	n                 int
}

func valueOf(v stats.Interval) value {
	if v.N == 0 {
		return value{}
	}
	out := value{median: v.Median, n: v.N}
	if !math.IsInf(v.High, 1) {
		out.low, out.high, out.bounded = v.Low, v.High, true
	}
	return out
}

// absent is the text of an absent measurement.
const absent = "not measured"

// String writes it with its interval and number of observations.
func (v value) String() string {
	switch {
	case v.n == 0:
		return absent
	case !v.bounded:
		return fmt.Sprintf("%s (N = %d: no interval)", number(v.median), v.n)
	}
	return fmt.Sprintf("%s (%s…%s), N = %d", number(v.median), number(v.low), number(v.high), v.n)
}

// interval is it as compare's, to be judged.
func (v value) interval() stats.Interval {
	if !v.bounded {
		return stats.Interval{Median: v.median, High: math.Inf(1), N: v.n}
	}
	return stats.Interval{Median: v.median, Low: v.low, High: v.high, N: v.n}
}

// number writes about three digits, and no fewer than there are before the point.
func number(v float64) string {
	switch a := math.Abs(v); {
	case a >= 100 || a == 0:
		return stats.Text("%.0f", v)
	case a >= 10:
		return stats.Text("%.1f", v)
	case a >= 0.1:
		return stats.Text("%.2f", v)
	default:
		return stats.Text("%.3f", v)
	}
}

// ratio writes a ratio to a tenth of a percent.
func ratio(v float64) string { return stats.Text("%.3f", v) }

// ratioOf is String of a ratio, with a verdict against 1.
func ratioOf(v value) string {
	switch {
	case v.n == 0:
		return absent
	case !v.bounded:
		return fmt.Sprintf("%s (N = %d: no interval)", ratio(v.median), v.n)
	}
	return fmt.Sprintf("%s (%s…%s), N = %d", ratio(v.median), ratio(v.low), ratio(v.high), v.n)
}

// percent is how far a value is from another, stats.None from 0.
func percent(got, want float64) string {
	return stats.Text("%+.1f %%", 100*(got/want-1))
}
