package topology

import (
	"context"
	"slices"

	"github.com/banyan-hpc/banyan"
)

// Topology is a [Cart] or a [Graph].
type Topology interface {
	// Comm is the communicator that was made with the topology. Its Free ends both.
	Comm() *banyan.Comm
	// Neighborhood is this rank's neighbours, for the exchanges. It must not be changed.
	Neighborhood() banyan.Neighborhood
}

// Cart is a grid of ranks, in any number of dimensions. In a periodic one the last and the first place are
// neighbours. Calls on a nil Cart, which a rank without a place gets, are ErrArgument.
type Cart struct {
	c *banyan.Comm
	n banyan.Neighborhood
	g grid
}

// NewCart makes a communicator of the ranks of c in a grid (MPI_Cart_create). The last dimension varies
// fastest: rank 1 is beside rank 0 along it. If the grid has fewer places than c has ranks, the
// remaining ranks get nil. With reorder ranks are numbered so that neighbours share nodes.
//
// Errors: ErrArgument, for dimensions below 1 or with more places than ranks; those of Comm.Dup or,
// with reorder or remaining ranks, of Comm.Split.
func NewCart(c *banyan.Comm, dims []int, periodic []bool, reorder bool) (*Cart, error) {
	g, err := newGrid("NewCart", dims, periodic, c.Size())
	if err != nil {
		return nil, err
	}
	return newCart(g)(derived(c, g.size(), reorder, g.arcs, g.blocks))
}

// newCart gives the grid on the communicator that was made for it.
func newCart(g grid) func(c *banyan.Comm, err error) (*Cart, error) {
	return func(c *banyan.Comm, err error) (*Cart, error) {
		if c == nil || err != nil {
			return nil, err
		}
		n := g.neighbors(c.Rank())
		return &Cart{c, banyan.Neighborhood{Sources: n, Dests: n, Opposite: true}, g}, nil
	}
}

// Comm is the grid's communicator.
func (t *Cart) Comm() *banyan.Comm {
	if t == nil {
		return nil
	}
	return t.c
}

// Neighborhood implements Topology: for each dimension the lower neighbour and the upper one, or ProcNull. A
// block for the lower neighbour comes to its place for the upper one, also if both are the same rank.
func (t *Cart) Neighborhood() banyan.Neighborhood {
	if t == nil {
		return banyan.Neighborhood{}
	}
	return t.n
}

// Neighbors are the ranks beside this one, for each dimension the lower one and the upper one; ProcNull
// beyond a border.
func (t *Cart) Neighbors() []int { return slices.Clone(t.Neighborhood().Dests) }

// WithContext gives a view of the grid for exchanges that end with a context; see
// [banyan.Comm.WithContext].
func (t *Cart) WithContext(ctx context.Context) *Cart {
	if t == nil {
		return nil
	}
	return &Cart{t.c.WithContext(ctx), t.n, t.g}
}

// Dims are the lengths of the grid (MPI_Cart_get).
func (t *Cart) Dims() []int {
	if t == nil {
		return nil
	}
	return slices.Clone(t.g.dims)
}

// Periodic reports for each dimension whether its ends are neighbours.
func (t *Cart) Periodic() []bool {
	if t == nil {
		return nil
	}
	return slices.Clone(t.g.periodic)
}

// Coords is the place of a rank. Error: ErrArgument, for a rank that the grid does not have.
func (t *Cart) Coords(rank int) ([]int, error) {
	switch {
	case t == nil:
		return nil, none("Cart.Coords")
	case uint(rank) >= uint(t.g.size()):
		return nil, misuse("Cart.Coords", "rank %d, want 0 … %d", rank, t.g.size()-1)
	}
	return t.g.coords(rank, make([]int, len(t.g.dims))), nil
}

// Rank is the rank at a place. Coordinates of periodic dimensions may be any; beyond the border of another
// one is ProcNull. Error: ErrArgument, unless there is one for each dimension.
func (t *Cart) Rank(coords ...int) (int, error) {
	switch {
	case t == nil:
		return banyan.ProcNull, none("Cart.Rank")
	case len(coords) != len(t.g.dims):
		return banyan.ProcNull, misuse("Cart.Rank", "%d coordinates in %d dimensions", len(coords), len(t.g.dims))
	}
	return t.g.rank(coords), nil
}

// Shift gives the ranks from which and to which data go if all ranks send over a distance along a dimension
// (MPI_Cart_shift); ProcNull beyond a border. A rank that has failed is named like others. Error:
// ErrArgument, for a dimension that the grid does not have.
func (t *Cart) Shift(dim, distance int) (source, dest int, err error) {
	switch {
	case t == nil:
		return banyan.ProcNull, banyan.ProcNull, none("Cart.Shift")
	case uint(dim) >= uint(len(t.g.dims)):
		return banyan.ProcNull, banyan.ProcNull, misuse("Cart.Shift", "dimension %d of %d", dim, len(t.g.dims))
	}
	me := t.c.Rank()
	return t.g.shifted(me, dim, -distance), t.g.shifted(me, dim, distance), nil
}

// Sub makes the grids of the dimensions to keep, one for each place along the others, and returns the one of
// this rank (MPI_Cart_sub). It is collective. Errors: ErrArgument, unless keep has all dimensions, here and at all
// other ranks of the new grid; those of Comm.Split.
func (t *Cart) Sub(keep []bool) (*Cart, error) {
	switch {
	case t == nil:
		return nil, none("Cart.Sub")
	case len(keep) != len(t.g.dims):
		_, _ = t.c.Split(banyan.Undefined, 0) // the others must not wait for this rank
		return nil, misuse("Cart.Sub", "which of %d dimensions to keep, where there are %d", len(keep), len(t.g.dims))
	}
	s := t.g.sub(keep)
	color, key := t.g.part(t.c.Rank(), keep)
	return newCart(s)(whole(t.c, s.size())(t.c.Split(color, key)))
}

// none is the error of a rank without a place.
func none(op string) error { return misuse(op, "this rank has no place in the topology") }
