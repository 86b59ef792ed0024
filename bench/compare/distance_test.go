package compare

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFindDistances(t *testing.T) {
	const us = 1e-6
	for _, c := range []struct {
		name     string
		controls []float64 // µs
		at       map[float64]Distance
	}{
		{"two", []float64{0.033, 0.32, 0.034, 0.31, 0.035, 0.33},
			map[float64]Distance{0.06: Near, 0.2: Far, 0.32: Far}},
		{"two, one rare", []float64{0.033, 0.034, 0.033, 0.031, 0.035, 0.32},
			map[float64]Distance{0.034: Near, 0.32: Far}},
		{"three", []float64{0.016, 0.33, 0.034, 0.31, 0.017, 0.033, 0.020},
			map[float64]Distance{0.018: Sibling, 0.033: Near, 0.32: Far}},
		{"only sibling", []float64{0.016, 0.018, 0.02, 0.022}, map[float64]Distance{0.016: Sibling, 0.022: Sibling}},
		{"only fast", []float64{0.056, 0.057, 0.055, 0.07}, map[float64]Distance{0.056: Near, 0.07: Near}},
		{"only slow", []float64{0.30, 0.32, 0.35}, map[float64]Distance{0.30: Far, 0.35: Far}},
		{"a group on a bound", []float64{0.14, 0.145, 0.155, 0.148}, map[float64]Distance{0.14: Near, 0.155: Near}},
		{"one value", []float64{0.05}, map[float64]Distance{0.05: Near}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s []float64
			for _, x := range c.controls {
				s = append(s, x*us)
			}
			m := findDistances(s)
			for x, want := range c.at {
				require.Equal(t, want, m.of(x*us), "%v µs", x)
			}
		})
	}
	require.Equal(t, Far, findDistances(nil).of(math.Inf(1)))
}

func TestBestSplit(t *testing.T) {
	require.Equal(t, 0, bestSplit(nil))
	require.Equal(t, 0, bestSplit([]float64{1}))
	require.Equal(t, 0, bestSplit([]float64{1, 1, 1}))
	require.Equal(t, 2, bestSplit([]float64{1, 2, 9, 10, 11}))
}
