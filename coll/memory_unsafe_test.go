package coll

import (
	"runtime"
	"runtime/debug"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// Memory grows as needed and serves shorter requests without allocating.
func TestMemoryGrows(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection would free large parts
	var m Memory
	for _, n := range []int{0, 1, 511, 513, 4000, keep, keep + 1, 3 * keep} {
		b := m.bytes(n)
		require.Len(t, b, n)
		clear(b)
		again := m.bytes(n)
		require.Equal(t, unsafe.SliceData(b), unsafe.SliceData(again), "%d bytes", n)
		require.Zero(t, testing.AllocsPerRun(10, func() {
			m.bytes(n)
			m.bytes(n / 2)
		}), "%d bytes", n)
	}
	require.LessOrEqual(t, len(m.small), keep)
}

// Two parts do not overlap, and begin where any number may lie.
func TestMemoryInTwo(t *testing.T) {
	var m Memory
	for _, n := range []int{1, 7, 8, 63, 64, 65, 1000, keep} {
		a, b := m.two(n)
		require.Len(t, a, n)
		require.Len(t, b, n)
		for i := range a {
			a[i] = 1
		}
		clear(b)
		require.Equal(t, byte(1), a[n-1])
		require.Equal(t, n, cap(a))
		first, second := uintptr(unsafe.Pointer(unsafe.SliceData(a))), uintptr(unsafe.Pointer(unsafe.SliceData(b)))
		require.Zero(t, (first|second)%unsafe.Alignof(complex128(0)))
		require.GreaterOrEqual(t, second-first, uintptr(n))
	}
}

// Large memory is not kept forever.
func TestLargeMemoryIsGivenBack(t *testing.T) {
	var m Memory
	m.bytes(keep)
	m.bytes(8 * keep)
	runtime.GC()
	require.Nil(t, m.large.Value())
	require.Len(t, m.small, keep)
}
