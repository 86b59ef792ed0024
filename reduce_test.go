package banyan

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/coll"
)

// The operations of the package are recognized as an application names them, and their loops give what
// they give.
func TestKernels(t *testing.T) {
	testKernels(t, Sum[float64], Prod[float64], Min[float64], Max[float64])
	testKernels(t, Sum[int32], Prod[int32], Min[int32], Max[int32])
	testKernels(t, Sum[uint8], Prod[uint8], Min[uint8], Max[uint8])
	require.Nil(t, kernelOf(func(a, b int) int { return a + b }))
	type named float64
	require.Nil(t, kernelOf(Sum[named]))
}

func testKernels[T Ordered](t *testing.T, ops ...func(a, b T) T) {
	for n, op := range ops {
		k := kernelOf(op)
		require.NotNil(t, k, "operation %d on %T", n, T(0))
		for _, size := range []int{0, 1, 7, 64} {
			a, b, want := make([]T, size), make([]T, size), make([]T, size)
			for i := range a {
				a[i], b[i] = T(rand.IntN(100)), T(rand.IntN(100))
				want[i] = op(a[i], b[i])
			}
			first := slices.Clone(a)
			k(Bytes(a), Bytes(b))
			require.Equal(t, want, a)
			k(Bytes(b), Bytes(first))
			require.Equal(t, want, b, "coll.Fold.Swaps counts on it")
		}
	}
}

// A reduction finds its loop without an allocation.
func TestKernelAllocatesNothing(t *testing.T) {
	var f coll.Fold
	require.Zero(t, testing.AllocsPerRun(100, func() { f = elementwise(Sum[float64], nil) }))
	require.NotNil(t, f.Op)
}

// Minimum and maximum of what is not a number are that, as of the functions.
func TestKernelsOfNaN(t *testing.T) {
	a := []float64{math.NaN(), 1}
	elementwise(Min[float64], nil).Op(Bytes(a), Bytes([]float64{1, math.NaN()}))
	require.True(t, math.IsNaN(a[0]) && math.IsNaN(a[1]))
}

func BenchmarkKernelOf(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		kernelOf(Sum[float64])
	}
}

func BenchmarkFold(b *testing.B) {
	x, y := make([]float64, 4096), make([]float64, 4096)
	for name, op := range map[string]func(a, b float64) float64{
		"Sum": Sum[float64], "a function of the application": func(a, b float64) float64 { return a + b },
	} {
		b.Run(name, func(b *testing.B) {
			f := elementwise(op, nil).Op
			b.SetBytes(8 * 4096)
			for b.Loop() {
				f(Bytes(x), Bytes(y))
			}
		})
	}
}
