package layout

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
)

// reference is the list of elements that a layout selects, computed the simple way.
type reference struct {
	Layout
	elements []int
}

// random draws a layout and computes its elements.
func random(t *testing.T, r *rand.Rand) reference {
	var x reference
	var err error
	switch r.IntN(3) {
	case 0:
		count, block := r.IntN(5), r.IntN(4)
		stride := block + r.IntN(3)
		x.Layout, err = Vector(count, block, stride)
		for i := range count {
			for j := range block {
				x.elements = append(x.elements, i*stride+j)
			}
		}
	case 1:
		var places, lengths []int
		at := 0
		for range r.IntN(5) {
			at += r.IntN(3)
			places, lengths = append(places, at), append(lengths, r.IntN(4))
			at += lengths[len(lengths)-1]
		}
		r.Shuffle(len(places), func(i, j int) {
			places[i], places[j], lengths[i], lengths[j] = places[j], places[i], lengths[j], lengths[i]
		})
		x.Layout, err = Indexed(places, lengths)
		for i, place := range places {
			for j := range lengths[i] {
				x.elements = append(x.elements, place+j)
			}
		}
	default:
		dims := r.IntN(5)
		sizes, part, start := make([]int, dims), make([]int, dims), make([]int, dims)
		for d := range dims {
			sizes[d] = 1 + r.IntN(4)
			part[d] = r.IntN(sizes[d] + 1)
			start[d] = r.IntN(sizes[d] - part[d] + 1)
			if r.IntN(2) == 0 { // a whole dimension
				part[d], start[d] = sizes[d], 0
			}
		}
		x.Layout, err = Subarray(sizes, part, start)
		x.elements = within(sizes, part, start)
	}
	require.NoError(t, err)
	return x
}

// within lists the elements of a subarray, by looking at every one of the array.
func within(sizes, part, start []int) (elements []int) {
	total := 1
	for _, n := range sizes {
		total *= n
	}
	for at := range total {
		in, rest := true, at
		for d := len(sizes) - 1; d >= 0; d-- {
			i := rest % sizes[d]
			rest /= sizes[d]
			in = in && start[d] <= i && i < start[d]+part[d]
		}
		if in {
			elements = append(elements, at)
		}
	}
	return elements
}

// data are n different numbers.
func data(n, of int) []int32 {
	s := make([]int32, n)
	for i := range s {
		s[i] = int32(1000*of + i + 1)
	}
	return s
}

// A layout selects the elements that its description names, packs them in their order, and writes to no other one.
func TestAgainstReference(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 3000 {
		x := random(t, r)
		extent := 0
		for _, at := range x.elements {
			extent = max(extent, at+1)
		}
		require.Equal(t, len(x.elements), x.Count(), "%+v", x)
		require.Equal(t, extent, x.Extent(), "%+v", x)
		s := data(extent+r.IntN(3), 0)
		v, err := Of(s, x.Layout)
		require.NoError(t, err)
		packed := v.Pack()
		for i, at := range x.elements {
			require.Equal(t, s[at], packed[i], "%+v", x)
		}
		want := slices.Clone(s)
		got := r.IntN(len(packed) + 1)
		for i := range got {
			packed[i] = -int32(i) - 1
			want[x.elements[i]] = packed[i]
		}
		v.unpack(got)
		require.Equal(t, want, s, "%+v: %d", x, got)
	}
}

// Elements that lie in one piece are not copied.
func TestOnePieceIsNotCopied(t *testing.T) {
	s := data(24, 0)
	for name, make := range map[string]func() (Layout, error){
		"vector of touching blocks": func() (Layout, error) { return Vector(3, 2, 2) },
		"vector of one block":       func() (Layout, error) { return Vector(1, 5, 0) },
		"rows of a matrix":          func() (Layout, error) { return Subarray([]int{4, 6}, []int{2, 6}, []int{1, 0}) },
		"part of one row":           func() (Layout, error) { return Subarray([]int{4, 6}, []int{1, 3}, []int{2, 1}) },
	} {
		l, err := make()
		require.NoError(t, err)
		v, err := Of(s, l)
		require.NoError(t, err)
		require.Same(t, &s[l.first], &v.Packed()[0], name)
		require.Nil(t, v.packed, name)
	}
}

func TestWrongLayouts(t *testing.T) {
	for name, call := range map[string]func() error{
		"negative count":      func() error { _, err := Vector(-1, 1, 1); return err },
		"blocks that overlap": func() error { _, err := Vector(2, 3, 2); return err },
		"lists that differ":   func() error { _, err := Indexed([]int{1}, nil); return err },
		"negative place":      func() error { _, err := Indexed([]int{-1}, []int{1}); return err },
		"negative length":     func() error { _, err := Indexed([]int{1}, []int{-1}); return err },
		"part outside":        func() error { _, err := Subarray([]int{4}, []int{3}, []int{2}); return err },
		"no start":            func() error { _, err := Subarray([]int{4}, []int{3}, nil); return err },
		"too many dimensions": func() error { n := make([]int, 17); _, err := Subarray(n, n, n); return err },
		"short slice":         func() error { l, _ := Vector(2, 1, 3); _, err := Of(make([]int, 3), l); return err },
		"short slice of a set": func() error {
			l, _ := Vector(2, 1, 3)
			_, err := OfEach(make([]int, 3), Layout{}, l)
			return err
		},
	} {
		require.ErrorIs(t, call(), banyan.ErrArgument, name)
	}
}

// Layouts that no slice has are refused, also if numbers that overflow would give them a short extent.
func TestLayoutsBeyondAnySlice(t *testing.T) {
	for name, call := range map[string]func() (Layout, error){
		"vector":                    func() (Layout, error) { return Vector(1<<32, 1, 1<<32) },
		"vector of touching blocks": func() (Layout, error) { return Vector(1<<32, 1<<32, 1<<32) },
		"last block":                func() (Layout, error) { return Vector(2, 2, math.MaxInt-1) },
		"place":                     func() (Layout, error) { return Indexed([]int{math.MaxInt}, []int{1}) },
		"sum of lengths": func() (Layout, error) {
			return Indexed(make([]int, 3), []int{math.MaxInt - 1, math.MaxInt - 1, 4})
		},
		"start": func() (Layout, error) {
			return Subarray([]int{1 << 33, 1 << 33}, []int{1, 1}, []int{1 << 31, 0})
		},
		"part": func() (Layout, error) {
			return Subarray([]int{1 << 33, 1 << 33}, []int{1 << 33, 1 << 33}, []int{0, 0})
		},
		"stride": func() (Layout, error) {
			return Subarray([]int{2, 1 << 32, 1 << 32}, []int{2, 1, 1}, []int{0, 0, 0})
		},
		"negative size": func() (Layout, error) { return Subarray([]int{math.MinInt}, []int{1}, []int{0}) },
	} {
		_, err := call()
		require.ErrorIs(t, err, banyan.ErrArgument, name)
	}
	// Only the elements that are selected count.
	l, err := Subarray([]int{1 << 40, 1 << 40, 4}, []int{1, 1, 2}, []int{0, 0, 1})
	require.NoError(t, err)
	require.Equal(t, 3, l.Extent())
	l, err = Subarray([]int{math.MaxInt, 1 << 40}, []int{0, 1 << 40}, []int{1 << 40, 0})
	require.NoError(t, err)
	require.Zero(t, l.Extent())
	l, err = Indexed([]int{math.MaxInt, 2}, []int{0, 1})
	require.NoError(t, err)
	require.Equal(t, 3, l.Extent())
}
