package osu

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/coll/topology"
)

// The collectives among neighbours. A size is that of the block for one neighbour.

// Grid defines the neighbours of ranks: the ranks lie in a periodic grid, and the neighbours of one are those up
// to Radius away from it along each dimension, in both directions.
type Grid struct {
	Dimensions int `json:"dimensions"`
	Radius     int `json:"radius"`
}

// maxNeighbors bounds the neighbours of a rank: each has a block in two buffers.
const maxNeighbors = 1 << 12

// ParseGrid reads OSU's -N: cart:DIMENSIONS:RADIUS.
func ParseGrid(text string) (Grid, error) {
	words := strings.Split(text, ":")
	if words[0] == "graph" {
		return Grid{}, fmt.Errorf("neighbours %s: graphs are not read from files: give cart:DIMENSIONS:RADIUS", text)
	}
	if len(words) != 3 || words[0] != "cart" {
		return Grid{}, fmt.Errorf("neighbours %s: cart:DIMENSIONS:RADIUS is needed, such as cart:2:1", text)
	}
	dimensions, err := strconv.Atoi(words[1])
	radius, failed := strconv.Atoi(words[2])
	if err != nil || failed != nil {
		return Grid{}, fmt.Errorf("neighbours %s: two numbers are needed, such as cart:2:1", text)
	}
	g := Grid{dimensions, radius}
	return g, g.check()
}

func (n Grid) check() error {
	if n.Dimensions < 1 || n.Radius < 1 || n.Dimensions > maxNeighbors || n.Radius > maxNeighbors || n.degree() > maxNeighbors {
		return fmt.Errorf("a grid of %d dimensions and neighbours up to %d away: at least 1 of each, and at most %d neighbours are possible",
			n.Dimensions, n.Radius, maxNeighbors)
	}
	return nil
}

// degree is the number of neighbours of a rank, which is its own neighbour in a short dimension.
func (n Grid) degree() int { return 2 * n.Dimensions * n.Radius }

// among are the options with neighbours.
func (o Options) among(n Grid) Options {
	o.Grid = n
	return o
}

// surround has the group's ranks lie in the grid.
func (g *group) surround(n Grid) error {
	dims, periodic := make([]int, n.Dimensions), make([]bool, n.Dimensions)
	for i := range periodic {
		periodic[i] = true
	}
	if err := topology.Dims(g.c.Size(), dims); err != nil {
		return err
	}
	grid, err := topology.NewCart(g.c, dims, periodic, false)
	if err != nil {
		return err
	}
	var ranks []int
	for dim := range dims {
		for distance := 1; distance <= n.Radius; distance++ {
			lower, upper, err := grid.Shift(dim, distance)
			if err != nil {
				return errors.Join(err, grid.Comm().Free())
			}
			ranks = append(ranks, lower, upper)
		}
	}
	g.c, g.near = grid.Comm(), banyan.Neighborhood{Sources: ranks, Dests: ranks, Opposite: true}
	return nil
}

// places is the memory for a block of each neighbour.
func (g *group) places(memory []byte, size int) []byte { return memory[:len(g.to)*size] }

var (
	neighborAllgatherOp = exchange{toAll: true, around: true, call: func(g *group, size int) error {
		return banyan.NeighborAllgather(g.c, g.near, g.buf[:size], g.places(g.out, size))
	}}.operation()
	neighborAllgathervOp = exchange{toAll: true, around: true, call: func(g *group, size int) error {
		return banyan.NeighborAllgatherv(g.c, g.near, g.buf[:size], g.to)
	}}.operation()
	neighborAlltoallOp = exchange{around: true, call: func(g *group, size int) error {
		return banyan.NeighborAlltoall(g.c, g.near, g.places(g.buf, size), g.places(g.out, size))
	}}.operation()
	neighborAlltoallvOp = exchange{around: true, call: func(g *group, _ int) error {
		return banyan.NeighborAlltoallv(g.c, g.near, g.from, g.to)
	}}.operation()
	ineighborAllgatherOp = neighborAllgatherOp.starting(func(g *group, size int) banyan.Request {
		return banyan.IneighborAllgather(g.c, g.near, g.buf[:size], g.places(g.out, size))
	})
	ineighborAllgathervOp = neighborAllgathervOp.starting(func(g *group, size int) banyan.Request {
		return banyan.IneighborAllgatherv(g.c, g.near, g.buf[:size], g.to)
	})
	ineighborAlltoallOp = neighborAlltoallOp.starting(func(g *group, size int) banyan.Request {
		return banyan.IneighborAlltoall(g.c, g.near, g.places(g.buf, size), g.places(g.out, size))
	})
	ineighborAlltoallvOp = neighborAlltoallvOp.starting(func(g *group, _ int) banyan.Request {
		return banyan.IneighborAlltoallv(g.c, g.near, g.from, g.to)
	})
)
