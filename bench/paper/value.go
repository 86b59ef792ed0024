package paper

import (
	"fmt"
	"math"

	"github.com/banyan-hpc/banyan/bench/stats"
)

// absent is the text of an absent measurement: an interval without observations.
const absent = "not measured"

// estimate is the median of observations; the zero value without any.
func estimate(xs []float64) stats.Interval {
	if len(xs) == 0 {
		return stats.Interval{}
	}
	return stats.DifferenceInterval(xs)
}

// text writes a median with its interval and number of observations.
func text(v stats.Interval, format func(float64) string) string {
	switch {
	case v.N == 0:
		return absent
	case v.Unbounded():
		return fmt.Sprintf("%s (N = %d: no interval)", format(v.Median), v.N)
	}
	return fmt.Sprintf("%s (%s…%s), N = %d", format(v.Median), format(v.Low), format(v.High), v.N)
}

func timeText(v stats.Interval) string  { return text(v, number) }
func ratioText(v stats.Interval) string { return text(v, ratio) }

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

// percent is how far a value is from another, stats.None from 0.
func percent(got, want float64) string {
	return stats.Text("%+.1f %%", 100*(got/want-1))
}
