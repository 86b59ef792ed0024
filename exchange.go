package banyan

import (
	"fmt"

	"github.com/banyan-hpc/banyan/coll"
	"github.com/banyan-hpc/banyan/internal/debug"
	"github.com/banyan-hpc/banyan/p2p"
)

// Collectives that exchange a block between each pair of ranks, collectives with blocks of different lengths, and
// scans. The rules of collective.go apply.

// Alltoall sends block r of send to each rank r, and stores the block that rank r has sent here in block r
// of recv. Blocks have the same length; both slices are Size() times as long at all ranks. The slices may
// overlap or be the same; then the operation allocates a copy. The blocks of ranks that are agreed to have
// failed stay unchanged. Each rank sends a message to every other rank, with any tree.
//
// Errors as for [Comm.Barrier]; ErrArgument for lengths that do not fit. After an error each block of recv
// holds its old contents, the new block, or a mixture; if the slices overlap, its old contents. See
// [Comm.SetUniformity].
func (c *Comm) Alltoall(send, recv []byte) error {
	return c.exchange(coll.Alltoall, coll.Args{In: send, Out: recv}, debug.Bytes, nil)
}

// Ialltoall is the non-blocking [Comm.Alltoall].
func (c *Comm) Ialltoall(send, recv []byte) Request {
	return c.iexchange(coll.Alltoall, coll.Args{In: send, Out: recv}, debug.Bytes, nil)
}

// Alltoall sends part r of send to each rank r and stores the parts received from all ranks in recv,
// in the order of ranks. All parts have the same length. See [Comm.Alltoall].
func Alltoall[T Number](c *Comm, send, recv []T) error {
	return c.exchange(coll.Alltoall, coll.Args{In: Bytes(send), Out: Bytes(recv), Unit: size[T]()}, kindOf[T](), nil)
}

// Ialltoall is the non-blocking [Alltoall]; see [Comm.Ialltoall].
func Ialltoall[T Number](c *Comm, send, recv []T) Request {
	return c.iexchange(coll.Alltoall, coll.Args{In: Bytes(send), Out: Bytes(recv), Unit: size[T]()}, kindOf[T](), nil)
}

// Allgatherv stores the mine of rank r in all[r] at every rank, which has the same length at all ranks.
// Lengths may differ among ranks r. Every rank passes both; mine may be its own slice of all. The slices of
// ranks that are agreed to have failed stay unchanged. Each rank sends a message to every other rank,
// with any tree.
//
// Errors as for [Comm.Barrier]; ErrArgument if the number of slices is not Size(), and at each rank where a
// message and its slice differ in length. After an error all holds the same as after one of
// [Comm.Allgather]. All and its slices belong to the operation until it ends.
func (c *Comm) Allgatherv(mine []byte, all [][]byte) error {
	return c.exchange(coll.Allgatherv, coll.Args{In: mine, To: coll.BlocksOf(all)}, debug.Bytes, nil)
}

// Iallgatherv is the non-blocking [Comm.Allgatherv].
func (c *Comm) Iallgatherv(mine []byte, all [][]byte) Request {
	return c.iexchange(coll.Allgatherv, coll.Args{In: mine, To: coll.BlocksOf(all)}, debug.Bytes, nil)
}

// Allgatherv stores the slices of all ranks, of any lengths, in the slices of all at every rank.
// See [Comm.Allgatherv].
func Allgatherv[T Number](c *Comm, mine []T, all [][]T) error {
	return c.exchange(coll.Allgatherv, coll.Args{In: Bytes(mine), To: coll.BlocksOf(all)}, kindOf[T](), nil)
}

// Iallgatherv is the non-blocking [Allgatherv]; see [Comm.Allgatherv].
func Iallgatherv[T Number](c *Comm, mine []T, all [][]T) Request {
	return c.iexchange(coll.Allgatherv, coll.Args{In: Bytes(mine), To: coll.BlocksOf(all)}, kindOf[T](), nil)
}

// Gatherv stores the mine of each rank r, of any length, in the root's all[r], which has the same length.
// Every rank passes mine; only the root's all counts, and its mine may be its own slice of all. Otherwise as
// [Comm.Allgatherv]; only the root detects lengths that do not fit.
func (c *Comm) Gatherv(mine []byte, all [][]byte, root int) error {
	return c.exchange(coll.Gatherv, coll.Args{In: mine, To: coll.BlocksOf(all), Root: root}, debug.Bytes, nil)
}

// Igatherv is the non-blocking [Comm.Gatherv].
func (c *Comm) Igatherv(mine []byte, all [][]byte, root int) Request {
	return c.iexchange(coll.Gatherv, coll.Args{In: mine, To: coll.BlocksOf(all), Root: root}, debug.Bytes, nil)
}

// Gatherv stores the slices of all ranks, of any lengths, in the slices of the root's all; the other ranks
// pass nil for it. See [Comm.Gatherv].
func Gatherv[T Number](c *Comm, mine []T, all [][]T, root int) error {
	return c.exchange(coll.Gatherv, coll.Args{In: Bytes(mine), To: coll.BlocksOf(all), Root: root}, kindOf[T](), nil)
}

// Igatherv is the non-blocking [Gatherv]; see [Comm.Gatherv].
func Igatherv[T Number](c *Comm, mine []T, all [][]T, root int) Request {
	return c.iexchange(coll.Gatherv, coll.Args{In: Bytes(mine), To: coll.BlocksOf(all), Root: root}, kindOf[T](), nil)
}

// Scatterv copies the root's all[r], of any length, into the mine of rank r, which has the same length. Every
// rank passes mine. Only the root's all counts; it is only read, and the root's mine may be its own slice of
// it. Nothing is sent to ranks that are agreed to have failed. Errors as for [Comm.Scatter]; each rank detects
// a length that does not fit its own.
func (c *Comm) Scatterv(all [][]byte, mine []byte, root int) error {
	return c.exchange(coll.Scatterv, coll.Args{From: coll.BlocksOf(all), Out: mine, Root: root}, debug.Bytes, nil)
}

// Iscatterv is the non-blocking [Comm.Scatterv].
func (c *Comm) Iscatterv(all [][]byte, mine []byte, root int) Request {
	return c.iexchange(coll.Scatterv, coll.Args{From: coll.BlocksOf(all), Out: mine, Root: root}, debug.Bytes, nil)
}

// Scatterv copies the slices of the root's all, of any lengths, into the mine of each rank; the other ranks
// pass nil for all. See [Comm.Scatterv].
func Scatterv[T Number](c *Comm, all [][]T, mine []T, root int) error {
	return c.exchange(coll.Scatterv, coll.Args{From: coll.BlocksOf(all), Out: Bytes(mine), Root: root}, kindOf[T](), nil)
}

// Iscatterv is the non-blocking [Scatterv]; see [Comm.Scatterv].
func Iscatterv[T Number](c *Comm, all [][]T, mine []T, root int) Request {
	return c.iexchange(coll.Scatterv, coll.Args{From: coll.BlocksOf(all), Out: Bytes(mine), Root: root}, kindOf[T](), nil)
}

// Alltoallv sends send[r] to each rank r and stores the slice from rank r in recv[r], which has the same
// length. The slices of send and recv may overlap or be the same; then the operation allocates a copy.
// Otherwise as [Comm.Allgatherv].
func (c *Comm) Alltoallv(send, recv [][]byte) error {
	return c.exchange(coll.Alltoallv, coll.Args{From: coll.BlocksOf(send), To: coll.BlocksOf(recv)}, debug.Bytes, nil)
}

// Ialltoallv is the non-blocking [Comm.Alltoallv].
func (c *Comm) Ialltoallv(send, recv [][]byte) Request {
	return c.iexchange(coll.Alltoallv, coll.Args{From: coll.BlocksOf(send), To: coll.BlocksOf(recv)}, debug.Bytes, nil)
}

// Alltoallv sends send[r] to each rank r and stores the slices from all ranks in recv. Lengths may differ.
// See [Comm.Alltoallv].
func Alltoallv[T Number](c *Comm, send, recv [][]T) error {
	return c.exchange(coll.Alltoallv, coll.Args{From: coll.BlocksOf(send), To: coll.BlocksOf(recv)}, kindOf[T](), nil)
}

// Ialltoallv is the non-blocking [Alltoallv]; see [Comm.Alltoallv].
func Ialltoallv[T Number](c *Comm, send, recv [][]T) Request {
	return c.iexchange(coll.Alltoallv, coll.Args{From: coll.BlocksOf(send), To: coll.BlocksOf(recv)}, kindOf[T](), nil)
}

// ReduceScatterBlock folds the send buffers of all ranks with op, in the order of ranks, and stores block r of
// the result in the recv of rank r. Send is Size() times as long as recv and only read; recv has the same
// length at all ranks and may be a part of send. Op is as in [Comm.Allreduce] and gets blocks. Ranks that are
// agreed to have failed contribute nothing.
//
// Errors as for [Comm.Barrier]; ErrArgument for a nil op and for lengths that do not fit. After an error the
// buffers are unchanged.
func (c *Comm) ReduceScatterBlock(send, recv []byte, op func(acc, in []byte)) error {
	return c.exchange(coll.ReduceScatterBlock, coll.Args{In: send, Out: recv, Fold: coll.Fold{Op: op}}, debug.Bytes, op)
}

// IreduceScatterBlock is the non-blocking [Comm.ReduceScatterBlock]. Op is called as by [Comm.Ireduce].
func (c *Comm) IreduceScatterBlock(send, recv []byte, op func(acc, in []byte)) Request {
	return c.iexchange(coll.ReduceScatterBlock, coll.Args{In: send, Out: recv, Fold: coll.Fold{Op: op}}, debug.Bytes, op)
}

// ReduceScatterBlock folds the send slices of all ranks element by element and stores the part of each rank
// in its recv. All parts have the same length. See [Comm.ReduceScatterBlock].
func ReduceScatterBlock[T Number](c *Comm, send, recv []T, op func(a, b T) T) error {
	a := coll.Args{In: Bytes(send), Out: Bytes(recv), Fold: elementwise(op, nil)}
	return c.exchange(coll.ReduceScatterBlock, a, debug.Bytes, op)
}

// IreduceScatterBlock is the non-blocking [ReduceScatterBlock]; see [Comm.ReduceScatterBlock].
func IreduceScatterBlock[T Number](c *Comm, send, recv []T, op func(a, b T) T) Request {
	a := coll.Args{In: Bytes(send), Out: Bytes(recv), Fold: elementwise(op, nil)}
	return c.iexchange(coll.ReduceScatterBlock, a, debug.Bytes, op)
}

// ReduceScatter is ReduceScatterBlock with blocks of counts[r] bytes for rank r, one after the other in send.
// Every rank passes the same counts; its own count is the length of its recv. See [Comm.ReduceScatterBlock].
func (c *Comm) ReduceScatter(send, recv []byte, counts []int, op func(acc, in []byte)) error {
	a := coll.Args{In: send, Out: recv, Counts: counts, Fold: coll.Fold{Op: op}}
	return c.exchange(coll.ReduceScatter, a, debug.Bytes, op)
}

// IreduceScatter is the non-blocking [Comm.ReduceScatter]. Op is called as by [Comm.Ireduce].
func (c *Comm) IreduceScatter(send, recv []byte, counts []int, op func(acc, in []byte)) Request {
	a := coll.Args{In: send, Out: recv, Counts: counts, Fold: coll.Fold{Op: op}}
	return c.iexchange(coll.ReduceScatter, a, debug.Bytes, op)
}

// ReduceScatter is [ReduceScatterBlock] with counts[r] elements for rank r. See [Comm.ReduceScatter].
func ReduceScatter[T Number](c *Comm, send, recv []T, counts []int, op func(a, b T) T) error {
	a := coll.Args{In: Bytes(send), Out: Bytes(recv), Counts: counts, Fold: elementwise(op, nil)}
	return c.exchange(coll.ReduceScatter, a, debug.Bytes, op)
}

// IreduceScatter is the non-blocking [ReduceScatter]; see [Comm.ReduceScatter].
func IreduceScatter[T Number](c *Comm, send, recv []T, counts []int, op func(a, b T) T) Request {
	a := coll.Args{In: Bytes(send), Out: Bytes(recv), Counts: counts, Fold: elementwise(op, nil)}
	return c.iexchange(coll.ReduceScatter, a, debug.Bytes, op)
}

// Scan folds the send buffers of the ranks up to this one with op, in the order of ranks, and stores the result in
// recv. Lengths are the same at all ranks. Both slices may be the same; otherwise send is only read. Op is as in
// [Comm.Allreduce]. Ranks that are agreed to have failed contribute nothing.
//
// Errors as for [Comm.Barrier]; ErrArgument for a nil op and for lengths that do not fit. A rank needs only the
// ranks below it, so it may succeed where others fail. After an error recv is undefined and send is unchanged. In
// place the operand may be lost; see [Comm.SetUniformity].
func (c *Comm) Scan(send, recv []byte, op func(acc, in []byte)) error {
	return c.exchange(coll.Scan, coll.Args{In: send, Out: recv, Fold: coll.Fold{Op: op}}, debug.Bytes, op)
}

// Iscan is the non-blocking [Comm.Scan]. Op is called as by [Comm.Ireduce].
func (c *Comm) Iscan(send, recv []byte, op func(acc, in []byte)) Request {
	return c.iexchange(coll.Scan, coll.Args{In: send, Out: recv, Fold: coll.Fold{Op: op}}, debug.Bytes, op)
}

// Scan folds the send slices of the ranks up to this one element by element. See [Comm.Scan].
func Scan[T Number](c *Comm, send, recv []T, op func(a, b T) T) error {
	a := coll.Args{In: Bytes(send), Out: Bytes(recv), Fold: elementwise(op, nil)}
	return c.exchange(coll.Scan, a, debug.Bytes, op)
}

// Iscan is the non-blocking [Scan]; see [Comm.Scan].
func Iscan[T Number](c *Comm, send, recv []T, op func(a, b T) T) Request {
	a := coll.Args{In: Bytes(send), Out: Bytes(recv), Fold: elementwise(op, nil)}
	return c.iexchange(coll.Scan, a, debug.Bytes, op)
}

// Exscan is Scan without this rank's own send. The lowest rank that is not agreed to have failed has no
// result, and its recv stays unchanged. See [Comm.Scan].
func (c *Comm) Exscan(send, recv []byte, op func(acc, in []byte)) error {
	return c.exchange(coll.Exscan, coll.Args{In: send, Out: recv, Fold: coll.Fold{Op: op}}, debug.Bytes, op)
}

// Iexscan is the non-blocking [Comm.Exscan]. Op is called as by [Comm.Ireduce].
func (c *Comm) Iexscan(send, recv []byte, op func(acc, in []byte)) Request {
	return c.iexchange(coll.Exscan, coll.Args{In: send, Out: recv, Fold: coll.Fold{Op: op}}, debug.Bytes, op)
}

// Exscan folds the send slices of the ranks below this one element by element. See [Comm.Exscan].
func Exscan[T Number](c *Comm, send, recv []T, op func(a, b T) T) error {
	a := coll.Args{In: Bytes(send), Out: Bytes(recv), Fold: elementwise(op, nil)}
	return c.exchange(coll.Exscan, a, debug.Bytes, op)
}

// Iexscan is the non-blocking [Exscan]; see [Comm.Exscan].
func Iexscan[T Number](c *Comm, send, recv []T, op func(a, b T) T) Request {
	a := coll.Args{In: Bytes(send), Out: Bytes(recv), Fold: elementwise(op, nil)}
	return c.iexchange(coll.Exscan, a, debug.Bytes, op)
}

// Neighborhood lists the ranks with which a rank exchanges blocks: see [NeighborAlltoall]. Package
// topology makes the neighbourhoods of grids and graphs.
//
//	Sources  []int // a block comes from each, in this order; [ProcNull]: no block, recv stays unchanged there
//	Dests    []int // a block goes to each, in this order; a rank may appear several times
//	Opposite bool  // both are pairs of directions: block i matches block i^1 of its receiver (MPI 8.6)
type Neighborhood = coll.Neighbors

// NeighborAlltoall sends block i of send to destination i and stores the block of source i in block i of recv
// (MPI_Neighbor_alltoall). All blocks have the same length. All ranks of c call it, each with its own neighbourhood.
// If a rank is k times among the sources of another, that is k times among its destinations; their messages match in
// order. The slices may overlap as in [Comm.Alltoall]. The blocks of ranks that are agreed to have failed stay
// unchanged. A rank needs only its neighbours: under [ULFM] the failure of other ranks is no error.
//
// Errors as for [Comm.Barrier]; ErrArgument for a rank outside c, and for lengths that do not fit.
func NeighborAlltoall[T Number](c *Comm, n Neighborhood, send, recv []T) error {
	return c.exchange(coll.NeighborAlltoall, flatArgs(n, send, recv), kindOf[T](), nil)
}

// IneighborAlltoall is the non-blocking [NeighborAlltoall].
func IneighborAlltoall[T Number](c *Comm, n Neighborhood, send, recv []T) Request {
	return c.iexchange(coll.NeighborAlltoall, flatArgs(n, send, recv), kindOf[T](), nil)
}

// NeighborAlltoallv is NeighborAlltoall with a slice of any length for each neighbour: send[i] is as long as the
// slice in which its receiver stores it.
func NeighborAlltoallv[T Number](c *Comm, n Neighborhood, send, recv [][]T) error {
	a := coll.Args{From: coll.BlocksOf(send), To: coll.BlocksOf(recv), Neighbors: n}
	return c.exchange(coll.NeighborAlltoallv, a, kindOf[T](), nil)
}

// IneighborAlltoallv is the non-blocking [NeighborAlltoallv].
func IneighborAlltoallv[T Number](c *Comm, n Neighborhood, send, recv [][]T) Request {
	a := coll.Args{From: coll.BlocksOf(send), To: coll.BlocksOf(recv), Neighbors: n}
	return c.iexchange(coll.NeighborAlltoallv, a, kindOf[T](), nil)
}

// NeighborAllgather is NeighborAlltoall with the same block for all destinations.
func NeighborAllgather[T Number](c *Comm, n Neighborhood, mine, all []T) error {
	return c.exchange(coll.NeighborAllgather, flatArgs(n, mine, all), kindOf[T](), nil)
}

// IneighborAllgather is the non-blocking [NeighborAllgather].
func IneighborAllgather[T Number](c *Comm, n Neighborhood, mine, all []T) Request {
	return c.iexchange(coll.NeighborAllgather, flatArgs(n, mine, all), kindOf[T](), nil)
}

// NeighborAllgatherv is NeighborAllgather with a slice for each source, as long as the block of
// that source.
func NeighborAllgatherv[T Number](c *Comm, n Neighborhood, mine []T, all [][]T) error {
	a := coll.Args{In: Bytes(mine), To: coll.BlocksOf(all), Neighbors: n}
	return c.exchange(coll.NeighborAllgatherv, a, kindOf[T](), nil)
}

// IneighborAllgatherv is the non-blocking [NeighborAllgatherv].
func IneighborAllgatherv[T Number](c *Comm, n Neighborhood, mine []T, all [][]T) Request {
	a := coll.Args{In: Bytes(mine), To: coll.BlocksOf(all), Neighbors: n}
	return c.iexchange(coll.NeighborAllgatherv, a, kindOf[T](), nil)
}

func flatArgs[T Number](n Neighborhood, in, out []T) coll.Args {
	return coll.Args{In: Bytes(in), Out: Bytes(out), Unit: size[T](), Neighbors: n}
}

// exchange runs a blocking collective on elements of a type; it folds with op, or op is nil.
func (c *Comm) exchange(k coll.Kind, a coll.Args, t debug.Kind, op any) error {
	if !c.usual() {
		return c.exchangeOther(k, a, t, op)
	}
	return c.notify(c.coll.Do(c.core, c.call(nil, manner{}), k, a))
}

func (c *Comm) exchangeOther(k coll.Kind, a coll.Args, t debug.Kind, op any) error {
	return c.collective(described(k, true, &a, t), op, func(c *Comm, m manner) error {
		return c.coll.Do(c.core, c.call(nil, m), k, a)
	})
}

// iexchange starts a non-blocking collective.
func (c *Comm) iexchange(k coll.Kind, a coll.Args, t debug.Kind, op any) Request {
	if !c.usual() {
		return c.iexchangeOther(k, a, t, op)
	}
	return Request{c.coll.Start(c.core, c.call(nil, manner{}), k, a), c}
}

func (c *Comm) iexchangeOther(k coll.Kind, a coll.Args, t debug.Kind, op any) Request {
	d := described(k, false, &a, t).By(op)
	return c.icollective(d, a.In, a.Out, func(c *Comm, in, out []byte, m manner) p2p.Handle {
		a.In, a.Out = in, out
		return c.coll.Start(c.core, c.call(nil, m), k, a)
	})
}

// described describes the call for the comparison with those of other ranks.
func described(k coll.Kind, blocks bool, a *coll.Args, t debug.Kind) debug.Collective {
	d := debug.Collective{Op: k.Name(blocks), Root: debug.None, Length: len(a.In), Kind: t,
		Unit: a.Fold.Unit}
	if k.Rooted() {
		d.Root = a.Root
	}
	if k.Varies() {
		d.Length = debug.None
	}
	return d
}

// ReduceLocal folds in into acc, element by element: acc[i] becomes op(acc[i], in[i]). It is one step of a
// reduction, without communication (MPI_Reduce_local). The same slice may be both. Error: ErrArgument for a
// nil op, slices of different lengths, or slices that overlap otherwise; acc is then unchanged.
func ReduceLocal[T Number](acc, in []T, op func(a, b T) T) error {
	var wrong error
	switch {
	case op == nil:
		wrong = fmt.Errorf("%w: no operation to fold with", ErrArgument)
	case len(acc) != len(in):
		wrong = fmt.Errorf("%w: %d elements to fold into %d: give slices of one length", ErrArgument, len(in), len(acc))
	case overlap(Bytes(acc), Bytes(in)):
		wrong = fmt.Errorf("%w: the two slices overlap: give the same one twice, or two", ErrArgument)
	}
	if wrong != nil {
		return misuse("ReduceLocal", wrong)
	}
	elementwise(op, nil).Op(Bytes(acc), Bytes(in))
	return nil
}

// starting returns begin, or for nil a function whose requests end with ErrArgument.
func starting(begin func(*Comm) Request) func(*Comm) Request {
	if begin != nil {
		return begin
	}
	return func(c *Comm) Request {
		return c.failed("Persistent", fmt.Errorf("%w: no function that starts an operation", ErrArgument))
	}
}
