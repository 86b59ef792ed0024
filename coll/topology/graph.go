package topology

import (
	"cmp"
	"context"
	"slices"

	"github.com/banyan-hpc/banyan"
)

// Graph is a graph whose vertices are the ranks of a communicator. A rank without a vertex gets a nil
// Graph; calls on it are ErrArgument.
type Graph struct {
	c     *banyan.Comm
	edges Edges
	all   [][]int // of all ranks; nil if each rank passed only its own
}

// Edges are those of one rank. A rank that is named several times has as many edges; the rank itself
// and ProcNull are allowed. Weights are the traffic over each edge, for a new order; nil: all the
// same.
type Edges struct {
	Sources, Dests             []int
	SourceWeights, DestWeights []int
}

// Edge is one edge of a graph, with its weight.
type Edge struct{ From, To, Weight int }

// NewGraph makes a communicator of the ranks of c with a graph that every rank passes as a whole
// (MPI_Graph_create): edges[r] are the neighbours of rank r. If there are fewer than ranks, the remaining
// ranks get nil.
//
// Errors: ErrArgument, for more vertices than ranks, an edge to none of them, and if the graph is not
// symmetric, since neighbours both send and receive (MPI 8.6): use [NewDistGraph] then. Those of Comm.Dup or
// Comm.Split.
func NewGraph(c *banyan.Comm, edges [][]int, reorder bool) (*Graph, error) {
	g, err := newSymmetric("NewGraph", edges, c.Size())
	if err != nil {
		return nil, err
	}
	d, err := derived(c, len(edges), reorder, func() graph { return g }, nil)
	if d == nil || err != nil {
		return nil, err
	}
	all := make([][]int, len(edges))
	for i, ranks := range edges {
		all[i] = slices.Clone(ranks)
	}
	own := all[d.Rank()]
	return &Graph{d, Edges{Sources: own, Dests: own}, all}, nil
}

// newSymmetric checks that there are no more vertices than ranks, and each edge in both directions.
func newSymmetric(op string, edges [][]int, ranks int) (graph, error) {
	if len(edges) > ranks {
		return nil, misuse(op, "%d vertices for %d ranks", len(edges), ranks)
	}
	g, balance := make(graph, len(edges)), map[[2]int]int{}
	for from, ranks := range edges {
		for _, to := range ranks {
			if uint(to) >= uint(len(edges)) {
				return nil, misuse(op, "edge from %d to %d in a graph of %d", from, to, len(edges))
			}
			g[from] = append(g[from], arc{to, 1})
			balance[[2]int{from, to}]++
			balance[[2]int{to, from}]--
		}
	}
	for from, ranks := range edges {
		for _, to := range ranks {
			if balance[[2]int{from, to}] != 0 {
				return nil, misuse(op, "edges between %d and %d differ in number by direction", from, to)
			}
		}
	}
	return g, nil
}

// NewAdjacent makes a communicator of the ranks of c. Each rank passes its own edges
// (MPI_Dist_graph_create_adjacent). An edge from a to b is one of a's Dests and one of b's Sources. Without
// reorder no message is sent. Then an edge that only one side passes is not detected, and an exchange may
// wait forever.
//
// Errors: ErrArgument, for ranks that c does not have and numbers of weights that do not fit. With reorder
// it is the same at all ranks, and includes edges that only one side passes, and millions of edges of one
// rank. Those of Comm.Dup or Comm.Split.
func NewAdjacent(c *banyan.Comm, e Edges, reorder bool) (*Graph, error) {
	e, err := e.checked("NewAdjacent", c.Size())
	if reorder {
		return adjacent(c, e, err)
	}
	d, derr := c.Dup() // of wrong edges, too: the next communicators are the same at all ranks
	if err != nil && derr == nil {
		derr = d.Free()
	}
	return newDistributed(e)(d, cmp.Or(err, derr))
}

// NewDistGraph makes a communicator of the ranks of c with a graph. Each rank passes any edges, not only
// its own (MPI_Dist_graph_create). One all-to-all exchange sends the edges to their ranks. A rank has its
// edges in the order of the ranks that passed them, and in the order of each rank's list.
//
// Errors: ErrArgument, at all ranks, for an edge of a rank that c does not have, and for millions of edges from
// one rank to another; those of a collective, and of Comm.Dup or Comm.Split.
func NewDistGraph(c *banyan.Comm, edges []Edge, reorder bool) (*Graph, error) {
	e, err := distributed(c, edges)
	if err != nil {
		return nil, err
	}
	if reorder {
		return adjacent(c, e, nil)
	}
	return newDistributed(e)(c.Dup())
}

// newDistributed gives the graph on the communicator that was made for it.
func newDistributed(e Edges) func(c *banyan.Comm, err error) (*Graph, error) {
	return func(c *banyan.Comm, err error) (*Graph, error) {
		if c == nil || err != nil {
			return nil, err
		}
		return &Graph{c: c, edges: e}, nil
	}
}

// Comm is the graph's communicator.
func (t *Graph) Comm() *banyan.Comm {
	if t == nil {
		return nil
	}
	return t.c
}

// Neighborhood implements Topology: the edges in the order in which they were given.
func (t *Graph) Neighborhood() banyan.Neighborhood {
	if t == nil {
		return banyan.Neighborhood{}
	}
	return banyan.Neighborhood{Sources: t.edges.Sources, Dests: t.edges.Dests}
}

// Edges returns those of this rank, with weights if they have any.
func (t *Graph) Edges() Edges {
	if t == nil {
		return Edges{}
	}
	return t.edges.clone()
}

// Neighbors returns the neighbours of a rank in a graph of [NewGraph] (MPI_Graph_neighbors). Error: ErrArgument,
// for other graphs (see [Graph.Edges]), and for a rank that the graph does not have.
func (t *Graph) Neighbors(rank int) ([]int, error) {
	switch {
	case t == nil:
		return nil, none("Graph.Neighbors")
	case t.all == nil:
		return nil, misuse("Graph.Neighbors", "each rank knows its own edges alone")
	case uint(rank) >= uint(len(t.all)):
		return nil, misuse("Graph.Neighbors", "rank %d, want 0 … %d", rank, len(t.all)-1)
	}
	return slices.Clone(t.all[rank]), nil
}

// WithContext gives a view of the graph for exchanges that end with a context; see
// [banyan.Comm.WithContext].
func (t *Graph) WithContext(ctx context.Context) *Graph {
	if t == nil {
		return nil
	}
	return &Graph{t.c.WithContext(ctx), t.edges, t.all}
}

func (e Edges) clone() Edges {
	return Edges{
		slices.Clone(e.Sources), slices.Clone(e.Dests), slices.Clone(e.SourceWeights), slices.Clone(e.DestWeights),
	}
}

// checked gives a copy of edges that name ranks of so many, or an error.
func (e Edges) checked(op string, size int) (Edges, error) {
	for _, side := range [...]struct{ ranks, weights []int }{{e.Sources, e.SourceWeights}, {e.Dests, e.DestWeights}} {
		if side.weights != nil && len(side.weights) != len(side.ranks) {
			return Edges{}, misuse(op, "%d weights of %d edges", len(side.weights), len(side.ranks))
		}
		for i, rank := range side.ranks {
			if rank != banyan.ProcNull && uint(rank) >= uint(size) {
				return Edges{}, misuse(op, "neighbour %d, want 0 … %d", rank, size-1)
			}
			if side.weights != nil && side.weights[i] < 0 {
				return Edges{}, misuse(op, "weight %d", side.weights[i])
			}
		}
	}
	return e.clone(), nil
}
