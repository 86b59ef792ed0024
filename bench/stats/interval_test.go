package stats

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// The ranks are those of the tables of the sign test (Conover, Practical Nonparametric Statistics,
// table A3, p = 1/2).
func TestSignTestRank(t *testing.T) {
	for n, want := range map[int]int{
		1: 0, 5: 0, 6: 1, 8: 1, 9: 2, 11: 2,
		12: 3, 15: 4, 17: 5, 20: 6, 25: 8, 30: 10, 50: 18, 100: 40,
	} {
		require.Equal(t, want, signTestRank(n, 0.05), "n = %d", n)
	}
	// Beyond the range of 2^-n as a float the normal approximation is the check.
	require.InDelta(t, 2000.0-1.96*math.Sqrt(4000)/2, float64(signTestRank(4000, 0.05)), 2)
}

func TestPairedIntervals(t *testing.T) {
	a, b := []float64{2, 6, 12}, []float64{1, 2, 3}
	require.Equal(t, []float64{2, 3, 4}, Ratios(a, b))
	require.Equal(t, []float64{1, 4, 9}, Differences(a, b))
}

func TestMedianInterval(t *testing.T) {
	v := MedianInterval([]float64{9, 1, 8, 2, 7, 3, 6, 4, 5})
	require.Equal(t, Interval{Median: 5, Low: 2, High: 8, N: 9}, v)
	require.InDelta(t, 0.6, v.HalfWidth(), 1e-12)

	few := MedianInterval([]float64{1, 2, 3, 4, 5})
	require.True(t, math.IsInf(few.High, 1))
	require.True(t, math.IsInf(few.HalfWidth(), 1))

	for want, v := range map[string]Interval{
		`{"median":5,"low":2,"high":8,"n":9}`:          v,
		`{"median":3,"low":null,"high":null,"n":5}`:    few,
		`{"median":null,"low":null,"high":null,"n":1}`: MedianInterval(Ratios([]float64{1}, []float64{0})),
	} {
		got, err := json.Marshal(v)
		require.NoError(t, err)
		require.JSONEq(t, want, string(got))
	}
}

// The interval holds the true median at least as often as its level states, also where a tenth of
// the samples was preempted in either source and is off by a factor.
func TestMedianIntervalCovers(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const runs, n = 4000, 15
	held := 0
	for range runs {
		xs := make([]float64, n)
		for i := range xs {
			xs[i] = math.Exp(0.02 * rng.NormFloat64())
			switch rng.IntN(20) {
			case 0:
				xs[i] *= 3
			case 1:
				xs[i] /= 3
			}
		}
		if v := MedianInterval(xs); v.Low <= 1 && 1 <= v.High {
			held++
		}
	}
	require.GreaterOrEqual(t, float64(held)/runs, Confidence-0.01)
}

// Differences may be negative; too few are unbounded on either side.
func TestDifferenceInterval(t *testing.T) {
	v := DifferenceInterval([]float64{-3, 1, -2, 2, 0, -1})
	require.Equal(t, Interval{Median: -0.5, Low: -3, High: 2, N: 6}, v)
	few := DifferenceInterval([]float64{5, 7})
	require.True(t, math.IsInf(few.Low, -1) && math.IsInf(few.High, 1))
	require.InDelta(t, 6, few.Median, 0)
}

// Only an interval that lies wholly on one side of a bound decides.
func TestSameness(t *testing.T) {
	for _, c := range []struct {
		low, high float64
		want      string
	}{
		{0.96, 1.04, "equal"}, {0.95, 1.05, "equal"},
		{0.94, 1.04, "undecided"}, {0.96, 1.06, "undecided"}, {0.9, 1.2, "undecided"},
		{1.06, 1.2, "slower"}, {0.8, 0.94, "faster"}, {0, math.Inf(1), "undecided"},
	} {
		require.Equal(t, c.want, Interval{Median: 1, Low: c.low, High: c.high}.Sameness(0.05), "%v–%v", c.low, c.high)
	}
}
