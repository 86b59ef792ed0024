package topology

import "github.com/banyan-hpc/banyan"

// MapCart returns the rank of this process in the grid that [NewCart] makes with reorder, without making it;
// Undefined for a rank without a place (MPI_Cart_map). So c.Split(0, rank), with the color Undefined if the rank is
// Undefined, makes the communicator of the grid. It is collective.
//
// Errors: ErrArgument as for NewCart; those of Comm.Split and Comm.Allgather.
func MapCart(c *banyan.Comm, dims []int, periodic []bool) (int, error) {
	g, err := newGrid("MapCart", dims, periodic, c.Size())
	if err != nil {
		return banyan.Undefined, err
	}
	return placed(c, g.size(), g.arcs, g.blocks)
}

// MapGraph is MapCart for the graph that [NewGraph] makes (MPI_Graph_map).
func MapGraph(c *banyan.Comm, edges [][]int) (int, error) {
	g, err := newSymmetric("MapGraph", edges, c.Size())
	if err != nil {
		return banyan.Undefined, err
	}
	return placed(c, len(edges), func() graph { return g }, nil)
}

// placed is the place of this rank; Undefined if there are fewer places.
func placed(
	c *banyan.Comm, places int, edges func() graph, blocks func(counts []int) [][]int,
) (int, error) {
	at, _, err := place(c, edges, blocks)
	if err != nil || at >= places {
		return banyan.Undefined, err
	}
	return at, nil
}
