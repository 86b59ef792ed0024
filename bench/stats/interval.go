package stats

import (
	"encoding/json"
	"math"
)

// Confidence is the level of all intervals.
const Confidence = 0.95

// Interval is an estimate with its confidence interval at level [Confidence].
type Interval struct {
	Median, Low, High float64
	// N is the number of independent observations.
	N int
}

// MedianInterval estimates the median of the distribution of the xs. All xs are positive.
//
// The interval lies between the two order statistics of the sign test: x(k) … x(n+1-k) with the
// largest k for which a fair coin shows fewer than k heads in n tosses with probability at most
// 2.5 %. It is exact for independent observations of any continuous distribution. A t interval of
// the logarithms would be narrower if ratios of times were log-normal; they are not: a preempted
// sample is off by a factor. The signed-rank interval needs symmetry, which two different
// implementations do not have. A bootstrap of the median is inexact at nine pairs. The price is
// about 25 % more width than the t interval has on well-behaved samples.
//
// Fewer than six observations have no such interval: Low is then 0 and High infinite.
func MedianInterval(xs []float64) Interval {
	s := sorted(xs)
	v := Interval{Median: Median(s), Low: 0, High: math.Inf(1), N: len(s)}
	if k := signTestRank(len(s), 1-Confidence); k > 0 {
		v.Low, v.High = s[k-1], s[len(s)-k]
	}
	return v
}

// DifferenceInterval is [MedianInterval] of numbers of any sign: where there is no interval, Low is
// negative infinity.
func DifferenceInterval(xs []float64) Interval {
	v := MedianInterval(xs)
	if v.Unbounded() {
		v.Low = math.Inf(-1)
	}
	return v
}

// Ratios divides paired observations. Precondition: base is at least as long as subject.
func Ratios(subject, base []float64) []float64 {
	out := make([]float64, len(subject))
	for i := range out {
		out[i] = subject[i] / base[i]
	}
	return out
}

// Differences subtracts paired observations. Precondition: base is at least as long as subject.
func Differences(subject, base []float64) []float64 {
	out := make([]float64, len(subject))
	for i := range out {
		out[i] = subject[i] - base[i]
	}
	return out
}

// Unbounded reports whether there are too few observations for an interval.
func (v Interval) Unbounded() bool { return math.IsInf(v.High, 1) }

// HalfWidth is half the width of the interval relative to the median; 0.03 is 3 %. It is infinite
// where there are too few observations for an interval.
func (v Interval) HalfWidth() float64 { return (v.High - v.Low) / 2 / v.Median }

// Sameness classifies the interval of a ratio: "equal" if it lies within 1-tolerance … 1+tolerance,
// "slower" or "faster" if it lies outside, and else "undecided".
func (v Interval) Sameness(tolerance float64) string {
	switch lo, hi := 1-tolerance, 1+tolerance; {
	case v.Low >= lo && v.High <= hi:
		return "equal"
	case v.Low > hi:
		return "slower"
	case v.High < lo:
		return "faster"
	}
	return "undecided"
}

// MarshalJSON writes {"median", "low", "high", "n"}. JSON has no infinity: where there is no interval,
// low and high are null, and so is the median without observations or of ratios to 0.
func (v Interval) MarshalJSON() ([]byte, error) {
	out := struct {
		Median *float64 `json:"median"`
		Low    *float64 `json:"low"`
		High   *float64 `json:"high"`
		N      int      `json:"n"`
	}{N: v.N}
	if v.N > 0 && finite(v.Median) {
		out.Median = &v.Median
	}
	if finite(v.Low) && finite(v.High) {
		out.Low, out.High = &v.Low, &v.High
	}
	return json.Marshal(out)
}

// signTestRank returns the largest k with 2·P(Bin(n, 1/2) < k) ≤ alpha, 0 when there is none.
func signTestRank(n int, alpha float64) int {
	// The probabilities are summed as logarithms: 2^-n underflows from n = 1075.
	logProb := -float64(n) * math.Ln2
	sum := 0.0
	for k := range n {
		sum += math.Exp(logProb)
		if 2*sum > alpha {
			return k
		}
		logProb += math.Log(float64(n-k) / float64(k+1))
	}
	return 0
}
