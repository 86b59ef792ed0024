package topology

import "github.com/banyan-hpc/banyan"

// The exchanges among neighbours are collective over the topology's communicator. They obey its policies and its
// revocation; see [banyan.NeighborAlltoall] for errors. The forms that end in Init make a persistent operation: each
// Start sends the present contents of the buffers.

// Alltoall sends each neighbour its block of send and stores the received blocks in recv, in the order of
// the neighbourhood (MPI_Neighbor_alltoall). All blocks have one length. The block of ProcNull stays
// unchanged.
func Alltoall[T banyan.Number](t Topology, send, recv []T) error {
	return banyan.NeighborAlltoall(t.Comm(), t.Neighborhood(), send, recv)
}

// Ialltoall is the non-blocking [Alltoall].
func Ialltoall[T banyan.Number](t Topology, send, recv []T) banyan.Request {
	return banyan.IneighborAlltoall(t.Comm(), t.Neighborhood(), send, recv)
}

// AlltoallInit is the persistent [Alltoall].
func AlltoallInit[T banyan.Number](t Topology, send, recv []T) *banyan.Persistent {
	n := t.Neighborhood()
	return t.Comm().Persistent(func(c *banyan.Comm) banyan.Request {
		return banyan.IneighborAlltoall(c, n, send, recv)
	})
}

// Alltoallv sends send[i] to the i-th neighbour and puts its slice into recv[i], of any lengths
// (MPI_Neighbor_alltoallv).
func Alltoallv[T banyan.Number](t Topology, send, recv [][]T) error {
	return banyan.NeighborAlltoallv(t.Comm(), t.Neighborhood(), send, recv)
}

// Ialltoallv is the non-blocking [Alltoallv].
func Ialltoallv[T banyan.Number](t Topology, send, recv [][]T) banyan.Request {
	return banyan.IneighborAlltoallv(t.Comm(), t.Neighborhood(), send, recv)
}

// AlltoallvInit is the persistent [Alltoallv].
func AlltoallvInit[T banyan.Number](t Topology, send, recv [][]T) *banyan.Persistent {
	n := t.Neighborhood()
	return t.Comm().Persistent(func(c *banyan.Comm) banyan.Request {
		return banyan.IneighborAlltoallv(c, n, send, recv)
	})
}

// Allgather sends mine to all neighbours and stores their blocks in all, in the order of the
// neighbourhood (MPI_Neighbor_allgather).
func Allgather[T banyan.Number](t Topology, mine, all []T) error {
	return banyan.NeighborAllgather(t.Comm(), t.Neighborhood(), mine, all)
}

// Iallgather is the non-blocking [Allgather].
func Iallgather[T banyan.Number](t Topology, mine, all []T) banyan.Request {
	return banyan.IneighborAllgather(t.Comm(), t.Neighborhood(), mine, all)
}

// AllgatherInit is the persistent [Allgather].
func AllgatherInit[T banyan.Number](t Topology, mine, all []T) *banyan.Persistent {
	n := t.Neighborhood()
	return t.Comm().Persistent(func(c *banyan.Comm) banyan.Request {
		return banyan.IneighborAllgather(c, n, mine, all)
	})
}

// Allgatherv sends mine to all neighbours and stores the slice of the i-th, of any length, in all[i]
// (MPI_Neighbor_allgatherv).
func Allgatherv[T banyan.Number](t Topology, mine []T, all [][]T) error {
	return banyan.NeighborAllgatherv(t.Comm(), t.Neighborhood(), mine, all)
}

// Iallgatherv is the non-blocking [Allgatherv].
func Iallgatherv[T banyan.Number](t Topology, mine []T, all [][]T) banyan.Request {
	return banyan.IneighborAllgatherv(t.Comm(), t.Neighborhood(), mine, all)
}

// AllgathervInit is the persistent [Allgatherv].
func AllgathervInit[T banyan.Number](t Topology, mine []T, all [][]T) *banyan.Persistent {
	n := t.Neighborhood()
	return t.Comm().Persistent(func(c *banyan.Comm) banyan.Request {
		return banyan.IneighborAllgatherv(c, n, mine, all)
	})
}
