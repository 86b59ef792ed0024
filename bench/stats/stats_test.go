package stats

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMedian(t *testing.T) {
	xs := []float64{4, 1, 3, 2}
	require.Equal(t, 2.5, Median(xs))
	require.Equal(t, []float64{4, 1, 3, 2}, xs, "unchanged")
	require.Equal(t, 2.0, Median([]float64{3, 1, 2}))
	require.True(t, math.IsNaN(Median(nil)))
}

func TestPercentile(t *testing.T) {
	xs := []int{50, 10, 40, 20, 30, 60, 100, 90, 80, 70}
	for p, want := range map[float64]int{0: 10, 10: 10, 11: 20, 50: 50, 90: 90, 91: 100, 99: 100, 100: 100} {
		require.Equal(t, want, Percentile(xs, p), "percentile %v", p)
	}
	require.Equal(t, 50, xs[0], "unchanged")
	require.Equal(t, time.Second, Percentile([]time.Duration{time.Second}, 0))
}

func TestSpread(t *testing.T) {
	var times []time.Duration
	for i := range 1000 {
		times = append(times, time.Duration(i+1)*time.Microsecond)
	}
	s := SpreadOf(times...)
	require.Equal(t, Spread{
		Count: 1000, Min: time.Microsecond, Max: time.Millisecond, Mean: 500500 * time.Nanosecond,
		P50: s.P50, P90: s.P90, P99: s.P99,
	}, s)
	for want, got := range map[float64]time.Duration{500: s.P50, 900: s.P90, 990: s.P99} {
		require.InEpsilon(t, want*1e3, float64(got), 2e-3)
	}
	require.Zero(t, SpreadOf())
	require.Equal(t, time.Hour, SpreadOf(48*time.Hour).Max, "counts as the limit")
	require.Equal(t, time.Duration(7), SpreadOf(7).P99, "no percentile exceeds the maximum")
}
