package layout

import (
	"fmt"

	"github.com/banyan-hpc/banyan"
)

// View is the part of a slice that a layout selects, and memory to pack it in. It serves one operation at a time.
type View[T banyan.Number] struct {
	data   []T
	layout Layout
	packed []T // nil before there is need
}

// Of makes a view of data, which it keeps. Error: ErrArgument for data that are shorter than the layout's extent.
func Of[T banyan.Number](data []T, l Layout) (*View[T], error) {
	if l.extent > len(data) {
		return nil, fmt.Errorf("%w: a layout of %d elements does not fit a slice of %d", banyan.ErrArgument, l.extent,
			len(data))
	}
	return &View[T]{data: data, layout: l}, nil
}

// Count is the number of elements that travel.
func (v *View[T]) Count() int { return v.layout.count }

// Packed is where the elements travel from and to, side by side: memory of the view, or the data themselves if they
// lie in one piece. It is the same slice each time.
func (v *View[T]) Packed() []T {
	if v.layout.whole() {
		return v.data[v.layout.first:][:v.layout.count]
	}
	if v.packed == nil {
		v.packed = make([]T, v.layout.count)
	}
	return v.packed
}

// Pack copies the elements to Packed, which it gives.
func (v *View[T]) Pack() []T {
	packed := v.Packed()
	if !v.layout.whole() {
		pack(&v.layout, packed, v.data)
	}
	return packed
}

// Unpack copies Packed to the elements.
func (v *View[T]) Unpack() { v.unpack(v.layout.count) }

// unpack is Unpack of the first n.
func (v *View[T]) unpack(n int) {
	if !v.layout.whole() {
		unpack(&v.layout, v.Packed()[:n], v.data)
	}
}

// Set is a view for each rank or neighbour, of one slice.
type Set[T banyan.Number] struct {
	views  []*View[T]
	packed [][]T
}

// OfEach makes a view of data for each layout. In a set that is received into they do not overlap. Errors as of [Of].
func OfEach[T banyan.Number](data []T, layouts ...Layout) (*Set[T], error) {
	s := new(Set[T])
	for i, l := range layouts {
		v, err := Of(data, l)
		if err != nil {
			return nil, fmt.Errorf("layout %d: %w", i, err)
		}
		s.views, s.packed = append(s.views, v), append(s.packed, v.Packed())
	}
	return s, nil
}

// Packed is where the elements of each view travel from and to; see [View.Packed].
func (s *Set[T]) Packed() [][]T { return s.packed }

// Pack copies the elements of each view to Packed, which it gives.
func (s *Set[T]) Pack() [][]T {
	for _, v := range s.views {
		v.Pack()
	}
	return s.packed
}

// Unpack copies Packed to the elements of each view.
func (s *Set[T]) Unpack() {
	for _, v := range s.views {
		v.Unpack()
	}
}
