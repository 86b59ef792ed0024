// Package topology arranges the ranks of a communicator in a grid or a graph and exchanges data among
// neighbours (MPI 8 and 8.6).
//
//	dims := []int{0, 0}
//	topology.Dims(c.Size(), dims)                              // 12 ranks: 4 by 3
//	grid, err := topology.NewCart(c, dims, []bool{true, false}, true)
//	err = topology.Alltoall(grid, edges, halo)                 // with the four neighbours
//
// A [Cart] is a grid in any number of dimensions; a [Graph] has any neighbours: [NewGraph] where each
// rank knows all edges, [NewAdjacent] where it knows its own, [NewDistGraph] where it knows some.
//
// # Order
//
// With reorder the new communicator may number the processes otherwise, so that neighbours share a node: a
// grid in blocks of one shape where all nodes have as many ranks, else by growing a group of neighbours
// for each node. The old order stays unless the new one cuts fewer edges between nodes, and where a
// rank was agreed to have failed. A rank has the place with its number in the new communicator.
//
// # Neighbours that are missing
//
// Beyond the border of a grid is [banyan.ProcNull]. A neighbour that fails stays a neighbour: Shift, Neighbors
// and the like name it as before. Exchanges that need it end with ErrProcFailed, which names it. When the
// communicator has been validated ([banyan.Comm.Validate]) it is blank: exchanges leave it out and its blocks as
// they are, like those of ProcNull.
//
// All functions that make a topology are collective; ranks give the same arguments where nothing else is
// said. A topology does not change; any goroutine may use it by the rules of its communicator.
//
// Floor 7.
package topology
