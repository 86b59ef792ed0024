package topology

import (
	"slices"

	"github.com/banyan-hpc/banyan"
)

// grid is the arithmetic of places. The last dimension runs fastest.
type grid struct {
	dims     []int
	periodic []bool
}

// newGrid checks the dimensions of a grid of at most so many ranks.
func newGrid(op string, dims []int, periodic []bool, ranks int) (grid, error) {
	if len(dims) != len(periodic) {
		return grid{}, misuse(op, "%d dimensions, of %d is known whether they are periodic", len(dims), len(periodic))
	}
	places := 1
	for i, d := range dims {
		if d < 1 || d > ranks/places {
			return grid{}, misuse(op, "dimension %d of %d (%v) for %d ranks", d, i, dims, ranks)
		}
		places *= d
	}
	return grid{slices.Clone(dims), slices.Clone(periodic)}, nil
}

// size is the number of places.
func (g *grid) size() int {
	n := 1
	for _, d := range g.dims {
		n *= d
	}
	return n
}

// coords stores the coordinates of a rank in out.
func (g *grid) coords(rank int, out []int) []int {
	for i, d := range slices.Backward(g.dims) {
		out[i] = rank % d
		rank /= d
	}
	return out
}

// rank is that of coordinates, or ProcNull beyond a border.
func (g *grid) rank(coords []int) int {
	rank := 0
	for i, d := range g.dims {
		at := coords[i]
		if at < 0 || at >= d {
			if !g.periodic[i] {
				return banyan.ProcNull
			}
			at = (at%d + d) % d
		}
		rank = rank*d + at
	}
	return rank
}

// shifted is the rank at a distance along a dimension.
func (g *grid) shifted(rank, dim, distance int) int {
	coords := g.coords(rank, make([]int, len(g.dims)))
	if d := g.dims[dim]; g.periodic[dim] {
		distance %= d
	} else if distance >= d || -distance >= d || distance < -d {
		return banyan.ProcNull
	}
	coords[dim] += distance
	return g.rank(coords)
}

// neighbors returns those of a rank, for each dimension the lower one and the upper one.
func (g *grid) neighbors(rank int) []int {
	out := make([]int, 0, 2*len(g.dims))
	for dim := range g.dims {
		out = append(out, g.shifted(rank, dim, -1), g.shifted(rank, dim, 1))
	}
	return out
}

// sub is the grid of the dimensions to keep.
func (g *grid) sub(keep []bool) (s grid) {
	for i, d := range g.dims {
		if keep[i] {
			s.dims, s.periodic = append(s.dims, d), append(s.periodic, g.periodic[i])
		}
	}
	return s
}

// part gives the number of the sub-grid in which a rank lies, and its rank there.
func (g *grid) part(rank int, keep []bool) (color, key int) {
	coords := g.coords(rank, make([]int, len(g.dims)))
	for i, d := range g.dims {
		if keep[i] {
			key = key*d + coords[i]
		} else {
			color = color*d + coords[i]
		}
	}
	return color, key
}

// arcs are the edges of all places.
func (g *grid) arcs() graph {
	all := make(graph, g.size())
	for rank := range all {
		for _, to := range g.neighbors(rank) {
			if to != banyan.ProcNull {
				all[rank] = append(all[rank], arc{to, 1})
			}
		}
	}
	return all
}
