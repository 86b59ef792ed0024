package collectives

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
)

// The operations of the package are recognized as an application names them, and their loops give the
// same results. A reduction finds its loop without an allocation; for another function it makes one.
func TestKernels(t *testing.T) {
	testKernels(t, banyan.Sum[float64], banyan.Prod[float64], banyan.Min[float64], banyan.Max[float64])
	testKernels(t, banyan.Sum[int32], banyan.Prod[int32], banyan.Min[int32], banyan.Max[int32])
	testKernels(t, banyan.Sum[uint8], banyan.Prod[uint8], banyan.Min[uint8], banyan.Max[uint8])
	type named float64
	require.NotZero(t, allocsOf(t, banyan.Sum[named]), "it is not recognized")
	require.NotZero(t, allocsOf(t, func(a, b int) int { return a + b }))
}

// allocsOf counts the allocations of a local reduction.
func allocsOf[T banyan.Number](t *testing.T, op func(a, b T) T) float64 {
	acc, in := make([]T, 3), make([]T, 3)
	return testing.AllocsPerRun(100, func() { require.NoError(t, banyan.ReduceLocal(acc, in, op)) })
}

func testKernels[T banyan.Ordered](t *testing.T, ops ...func(a, b T) T) {
	for n, op := range ops {
		require.Zero(t, allocsOf(t, op), "operation %d on %T", n, T(0))
		for _, size := range []int{0, 1, 7, 64} {
			a, b, want := make([]T, size), make([]T, size), make([]T, size)
			for i := range a {
				a[i], b[i] = T(rand.IntN(100)), T(rand.IntN(100))
				want[i] = op(a[i], b[i])
			}
			first := slices.Clone(a)
			require.NoError(t, banyan.ReduceLocal(a, b, op))
			require.Equal(t, want, a)
			require.NoError(t, banyan.ReduceLocal(b, first, op))
			require.Equal(t, want, b, "coll.Fold.Swaps counts on it")
		}
	}
}

// Minimum and maximum with NaN are NaN, as from the functions.
func TestKernelsOfNaN(t *testing.T) {
	a := []float64{math.NaN(), 1}
	require.NoError(t, banyan.ReduceLocal(a, []float64{1, math.NaN()}, banyan.Min))
	require.True(t, math.IsNaN(a[0]) && math.IsNaN(a[1]))
}

// A local reduction folds the second slice into the first in that order, and refuses invalid slices.
func TestReduceLocal(t *testing.T) {
	acc := []int{10, 20}
	minus := func(a, b int) int { return a - b }
	require.NoError(t, banyan.ReduceLocal(acc, []int{1, 2}, minus))
	require.Equal(t, []int{9, 18}, acc)
	require.NoError(t, banyan.ReduceLocal(acc, acc, minus), "the same slice")
	require.Equal(t, []int{0, 0}, acc)
	require.NoError(t, banyan.ReduceLocal(nil, nil, minus))
	for _, err := range []error{
		banyan.ReduceLocal(acc, acc[:1], minus), banyan.ReduceLocal(acc, acc, nil),
		banyan.ReduceLocal(make([]int, 3)[:2], make([]int, 3), minus),
	} {
		require.ErrorIs(t, err, banyan.ErrArgument)
	}
	three := []int{1, 2, 3}
	require.ErrorIs(t, banyan.ReduceLocal(three[:2], three[1:], minus), banyan.ErrArgument)
	require.Equal(t, []int{1, 2, 3}, three)
}

func BenchmarkFold(b *testing.B) {
	x, y := make([]float64, 4096), make([]float64, 4096)
	for name, op := range map[string]func(a, b float64) float64{
		"Sum": banyan.Sum[float64], "a function of the application": func(a, b float64) float64 { return a + b },
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(8 * 4096)
			for b.Loop() {
				require.NoError(b, banyan.ReduceLocal(x, y, op))
			}
		})
	}
}
