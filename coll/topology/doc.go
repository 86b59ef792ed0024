// Package topology arranges the ranks of a communicator in a grid or a graph and exchanges data among neighbours
// (MPI 8 and 8.6).
//
//	dims := []int{0, 0}
//	topology.Dims(c.Size(), dims)                              // 12 ranks: 4 by 3
//	grid, err := topology.NewCart(c, dims, []bool{true, false}, true)
//	err = topology.Alltoall(grid, edges, halo)                 // with the four neighbours
//
// A [Cart] is a grid in any number of dimensions; a [Graph] has any neighbours. Each rank passes all edges to
// [NewGraph], its own edges to [NewAdjacent], and any edges to [NewDistGraph].
//
// # Order
//
// With reorder the new communicator may number the processes differently, so that neighbours share a node: a
// grid in blocks of one shape if all nodes have as many ranks, else by growing a group of neighbours for each
// node. The old order stays if the new one does not cut fewer edges between nodes, and if a rank was agreed to
// have failed. A rank has the place with its number in the new communicator.
//
// # Missing neighbours
//
// Beyond the border of a grid is [banyan.ProcNull]. A neighbour that fails stays a neighbour: Shift, Neighbors
// and the like name it as before. Exchanges that need it end with ErrProcFailed, which names it. After a
// validate of the communicator ([banyan.Comm.Validate]) exchanges treat it like ProcNull: they leave it out, and
// its blocks stay unchanged.
//
// All functions that make a topology are collective; ranks pass the same arguments unless stated otherwise. A
// topology is immutable; any goroutine may use it by the rules of its communicator.
//
// Floor 7.
package topology
