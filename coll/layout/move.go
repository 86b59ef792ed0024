package layout

import (
	"errors"

	"github.com/banyan-hpc/banyan"
)

// The operations below are those of package banyan with the same names. If an operation may leave blocks unchanged,
// the packed elements are copied to its buffer beforehand.

// Send sends the elements of a view; see [banyan.Send].
func Send[T banyan.Number](c *banyan.Comm, v *View[T], dst, tag int) error {
	return banyan.Send(c, v.Pack(), dst, tag)
}

// Isend starts a send of the elements as they are now. The view is not to be used until the request is complete; see
// [banyan.Isend].
func Isend[T banyan.Number](c *banyan.Comm, v *View[T], dst, tag int) banyan.Request {
	return banyan.Isend(c, v.Pack(), dst, tag)
}

// Recv receives into the elements of a view. A shorter message leaves the others as they were; of a longer one, with
// ErrTruncate, they hold the beginning. See [banyan.Recv].
func Recv[T banyan.Number](c *banyan.Comm, v *View[T], src, tag int) (banyan.Status, error) {
	st, err := banyan.Recv(c, v.Packed(), src, tag)
	return v.received(st, err)
}

// received unpacks a message.
func (v *View[T]) received(st banyan.Status, err error) (banyan.Status, error) {
	switch {
	case errors.Is(err, banyan.ErrTruncate):
		v.Unpack()
	case err == nil && !st.Cancelled:
		v.unpack(st.Count)
	}
	return st, err
}

// Receive is a receive under way.
type Receive[T banyan.Number] struct {
	banyan.Request
	view *View[T]
}

// Irecv starts a receive into a view, which is not to be used until the receive is complete; see [banyan.Irecv]. Only
// Wait of the Receive writes to the elements; after a wait for its Request call [View.Unpack].
func Irecv[T banyan.Number](c *banyan.Comm, v *View[T], src, tag int) Receive[T] {
	return Receive[T]{banyan.Irecv(c, v.Packed(), src, tag), v}
}

// Wait waits for the message and unpacks it, as [Recv]. A receive that is pending (ErrProcFailedPending) can be waited for
// again.
func (r *Receive[T]) Wait() (banyan.Status, error) {
	st, err := r.Request.Wait()
	return r.view.received(st, err)
}

// Sendrecv sends the elements of a view and receives into those of another one at once. Both may be views of the
// same slice; see [banyan.Sendrecv].
func Sendrecv[T banyan.Number](
	c *banyan.Comm, send *View[T], dst, stag int, recv *View[T], src, rtag int,
) (banyan.Status, error) {
	st, err := banyan.Sendrecv(c, send.Pack(), dst, stag, recv.Packed(), src, rtag)
	return recv.received(st, err)
}

// Bcast copies the elements of the root's view to those of every rank; see [banyan.Bcast].
func Bcast[T banyan.Number](c *banyan.Comm, v *View[T], root int) error {
	return v.after(banyan.Bcast(c, v.Pack(), root))
}

// after unpacks the result of an operation.
func (v *View[T]) after(err error) error {
	if err == nil {
		v.Unpack()
	}
	return err
}

// Allreduce reduces element by element; see [banyan.Allreduce]. The two views are different, also for the same
// elements.
func Allreduce[T banyan.Number](
	c *banyan.Comm, send, recv *View[T], op func(a, b T) T, order ...banyan.Order,
) error {
	return recv.after(banyan.Allreduce(c, send.Pack(), recv.Pack(), op, order...))
}

// Reduce reduces element by element into the root's recv; the others give nil for it. See [banyan.Reduce].
func Reduce[T banyan.Number](
	c *banyan.Comm, send, recv *View[T], op func(a, b T) T, root int, order ...banyan.Order,
) error {
	if recv == nil {
		return banyan.Reduce(c, send.Pack(), nil, op, root, order...)
	}
	return recv.after(banyan.Reduce(c, send.Pack(), recv.Pack(), op, root, order...))
}

// Gather stores the elements of all ranks in those of the root's all, those of rank 0 first; the others pass nil for
// it. See [banyan.Gather].
func Gather[T banyan.Number](c *banyan.Comm, mine, all *View[T], root int) error {
	if all == nil {
		return banyan.Gather(c, mine.Pack(), nil, root)
	}
	return all.after(banyan.Gather(c, mine.Pack(), all.Pack(), root))
}

// Scatter copies the elements of the root's all to those of the ranks, the first to those of rank 0; the others pass
// nil for all. See [banyan.Scatter].
func Scatter[T banyan.Number](c *banyan.Comm, all, mine *View[T], root int) error {
	var from []T
	if all != nil {
		from = all.Pack()
	}
	return mine.after(banyan.Scatter(c, from, mine.Pack(), root))
}

// Allgather stores the elements of all ranks in those of every rank's all, those of rank 0 first; see
// [banyan.Allgather].
func Allgather[T banyan.Number](c *banyan.Comm, mine, all *View[T]) error {
	return all.after(banyan.Allgather(c, mine.Pack(), all.Pack()))
}

// Alltoall sends each rank its part of the elements, those of rank 0 first, and receives those of all ranks; see
// [banyan.Alltoall].
func Alltoall[T banyan.Number](c *banyan.Comm, send, recv *View[T]) error {
	return recv.after(banyan.Alltoall(c, send.Pack(), recv.Pack()))
}

// Alltoallv sends each rank the elements of its view, and receives those of each rank into its view (MPI_Alltoallw);
// see [banyan.Alltoallv].
func Alltoallv[T banyan.Number](c *banyan.Comm, send, recv *Set[T]) error {
	return recv.after(banyan.Alltoallv(c, send.Pack(), recv.Pack()))
}

// Neighbors sends each destination the elements of its view, and receives those of the sources into their views
// (MPI_Neighbor_alltoallw); see [banyan.NeighborAlltoallv].
func Neighbors[T banyan.Number](c *banyan.Comm, n banyan.Neighborhood, send, recv *Set[T]) error {
	return recv.after(banyan.NeighborAlltoallv(c, n, send.Pack(), recv.Pack()))
}

// after unpacks the result of an operation.
func (s *Set[T]) after(err error) error {
	if err == nil {
		s.Unpack()
	}
	return err
}
