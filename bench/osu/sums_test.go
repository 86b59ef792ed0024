package osu

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
)

// The library recognizes the operation of sums: for any other function it makes another one at each call.
func TestSumsAreRecognized(t *testing.T) {
	require.Zero(t, allocsOf(t, sumChar))
	require.Zero(t, allocsOf(t, sumInt))
	require.Zero(t, allocsOf(t, sumFloat))
	require.NotZero(t, allocsOf(t, func(a, b int32) int32 { return a + b }))
}

// allocsOf counts the allocations of a local reduction.
func allocsOf[T element](t *testing.T, op func(a, b T) T) float64 {
	acc, in := make([]T, 3), make([]T, 3)
	return testing.AllocsPerRun(10, func() { require.NoError(t, banyan.ReduceLocal(acc, in, op)) })
}
