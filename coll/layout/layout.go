package layout

import (
	"fmt"
	"math"
	"slices"

	"github.com/banyan-hpc/banyan"
)

// Layout selects elements of a slice, in the order in which they travel. The zero Layout selects none.
type Layout struct {
	first int // element of the first block
	block int // length of a block in elements
	// dims repeat the blocks, the outermost first. None: one block.
	dims []dim
	// Instead, blocks of any lengths.
	places, lengths []int
	count, extent   int
}

// dim repeats the dimensions inside of it.
type dim struct{ count, stride int }

// maxDims is the most dimensions of a subarray.
const maxDims = 16

// Vector selects count blocks of so many elements, which begin stride elements apart (MPI_Type_vector). Error:
// ErrArgument for a negative number, blocks that overlap, or an extent that no slice has.
func Vector(count, block, stride int) (Layout, error) {
	if count < 0 || block < 0 || stride < block && count > 1 {
		return Layout{}, fmt.Errorf("%w: %d blocks of %d elements, %d apart", banyan.ErrArgument, count, block, stride)
	}
	if count == 0 || block == 0 {
		return Layout{}, nil
	}
	if stride == block || count == 1 {
		block, count = plus(0, block, count), 1
	}
	l := Layout{block: block, count: plus(0, count, block), extent: plus(block, count-1, stride)}
	if count > 1 {
		l.dims = []dim{{count, stride}}
	}
	return l.checked()
}

// Indexed selects a block of lengths[i] elements at each places[i] (MPI_Type_indexed), in that order. Blocks of a view
// that is received into do not overlap. Errors: ErrArgument for lists of different lengths, a negative number, or a count
// or an extent that no slice has.
func Indexed(places, lengths []int) (Layout, error) {
	if len(places) != len(lengths) {
		return Layout{}, fmt.Errorf("%w: %d places of blocks and %d lengths", banyan.ErrArgument, len(places), len(lengths))
	}
	l := Layout{places: slices.Clone(places), lengths: slices.Clone(lengths)}
	for i, n := range lengths {
		if n < 0 || places[i] < 0 {
			return Layout{}, fmt.Errorf("%w: a block of %d elements at %d", banyan.ErrArgument, n, places[i])
		}
		if l.count = plus(l.count, 1, n); n > 0 {
			l.extent = max(l.extent, plus(places[i], 1, n))
		}
	}
	return l.checked()
}

// Subarray selects a part of an array of any number of dimensions up to 16, of which the last one lies side by side
// (MPI_Type_create_subarray with MPI_ORDER_C): in each dimension of a size the elements start … start+part-1. Error:
// ErrArgument for lists of different lengths, a part that is not within, or an extent that no slice has.
func Subarray(sizes, part, start []int) (Layout, error) {
	if len(sizes) != len(part) || len(sizes) != len(start) || len(sizes) > maxDims {
		return Layout{}, fmt.Errorf("%w: %d sizes, %d of the part and %d starts, of at most %d dimensions",
			banyan.ErrArgument, len(sizes), len(part), len(start), maxDims)
	}
	l := Layout{block: 1, count: 1, extent: 1}
	stride := 1
	for d := len(sizes) - 1; d >= 0; d-- {
		if min(sizes[d], part[d], start[d]) < 0 || start[d] > sizes[d]-part[d] {
			return Layout{}, fmt.Errorf("%w: dimension %d has %d elements, not %d from %d on", banyan.ErrArgument, d,
				sizes[d], part[d], start[d])
		}
		if l.count = plus(0, l.count, part[d]); l.count > 0 {
			l.first = plus(l.first, start[d], stride)
			l.extent = plus(l.extent, start[d]+part[d]-1, stride)
			l.repeat(part[d], stride)
		}
		stride = plus(0, stride, sizes[d])
	}
	if l.count == 0 {
		return Layout{}, nil
	}
	slices.Reverse(l.dims)
	return l.checked()
}

// plus gives n + count*size of numbers that are not negative, or MaxInt if that is more.
func plus(n, count, size int) int {
	if count > 0 && size > (math.MaxInt-n)/count {
		return math.MaxInt
	}
	return n + count*size
}

// checked gives an error for a layout of more elements than any slice has.
func (l Layout) checked() (Layout, error) {
	if max(l.count, l.extent) == math.MaxInt {
		return Layout{}, fmt.Errorf("%w: a layout of more elements than a slice has", banyan.ErrArgument)
	}
	return l, nil
}

// repeat adds a dimension around the present ones.
func (l *Layout) repeat(count, stride int) {
	switch {
	case count == 1:
	case l.dims == nil && stride == l.block:
		l.block *= count
	default:
		l.dims = append(l.dims, dim{count, stride})
	}
}

// Count is the number of elements that travel.
func (l Layout) Count() int { return l.count }

// Extent is the length of the shortest slice that has all of them.
func (l Layout) Extent() int { return l.extent }

// whole reports whether the elements lie in one piece.
func (l *Layout) whole() bool { return l.places == nil && l.dims == nil }
