package banyan

import (
	"fmt"

	"github.com/banyan-hpc/banyan/coll"
	"github.com/banyan-hpc/banyan/internal/debug"
	"github.com/banyan-hpc/banyan/p2p"
)

// Collectives in which each rank has a block for each other one, those of blocks of different lengths, and scans.
// The rules of collective.go hold.

// Alltoall sends the block with the number of each rank in send to that rank, and puts the block that each
// rank has for this one into recv, in the order of ranks. Blocks are of the same length; both slices are
// Size() times as long at all ranks. They may overlap, or be the same: then the operation works in memory
// of its own. The places of ranks that are agreed to have failed stay as they are. Each rank sends a
// message to each other one, whatever the tree.
//
// Errors as of [Comm.Barrier]; ErrArgument for lengths that do not fit. After one recv holds, at any place,
// what it held, or that rank's block, or a part of each, and what it held if the slices overlap; see
// [Comm.SetUniformity].
func (c *Comm) Alltoall(send, recv []byte) error {
	return c.exchange(coll.Alltoall, coll.Args{In: send, Out: recv}, debug.Bytes, nil)
}

// Ialltoall is the non-blocking [Comm.Alltoall].
func (c *Comm) Ialltoall(send, recv []byte) Request {
	return c.iexchange(coll.Alltoall, coll.Args{In: send, Out: recv}, debug.Bytes, nil)
}

// Alltoall sends each rank its part of send and receives those of all ranks into recv, in the order of
// ranks; all parts are of the same length. See [Comm.Alltoall].
func Alltoall[T Number](c *Comm, send, recv []T) error {
	return c.exchange(coll.Alltoall, coll.Args{In: Bytes(send), Out: Bytes(recv), Unit: size[T]()}, kindOf[T](), nil)
}

// Ialltoall is the non-blocking [Alltoall]; see [Comm.Ialltoall].
func Ialltoall[T Number](c *Comm, send, recv []T) Request {
	return c.iexchange(coll.Alltoall, coll.Args{In: Bytes(send), Out: Bytes(recv), Unit: size[T]()}, kindOf[T](), nil)
}

// Allgatherv puts the mine of all ranks, of any lengths, into all of every rank: that of rank r into all[r],
// which is as long at all ranks. Every rank gives both; mine may be its place in all. The slices of ranks
// that are agreed to have failed stay as they are. Each rank sends a message to each other one, whatever the
// tree.
//
// Errors as of [Comm.Barrier]; ErrArgument for a number of slices that is not Size(), and at each rank where
// a message has another length than its place. After one all holds as after one of [Comm.Allgather]. All is
// the operation's until its end, like the slices in it.
func (c *Comm) Allgatherv(mine []byte, all [][]byte) error {
	return c.exchange(coll.Allgatherv, coll.Args{In: mine, To: coll.BlocksOf(all)}, debug.Bytes, nil)
}

// Iallgatherv is the non-blocking [Comm.Allgatherv].
func (c *Comm) Iallgatherv(mine []byte, all [][]byte) Request {
	return c.iexchange(coll.Allgatherv, coll.Args{In: mine, To: coll.BlocksOf(all)}, debug.Bytes, nil)
}

// Allgatherv puts the slices of all ranks, of any lengths, into the slices in every rank's all. See
// [Comm.Allgatherv].
func Allgatherv[T Number](c *Comm, mine []T, all [][]T) error {
	return c.exchange(coll.Allgatherv, coll.Args{In: Bytes(mine), To: coll.BlocksOf(all)}, kindOf[T](), nil)
}

// Iallgatherv is the non-blocking [Allgatherv]; see [Comm.Allgatherv].
func Iallgatherv[T Number](c *Comm, mine []T, all [][]T) Request {
	return c.iexchange(coll.Allgatherv, coll.Args{In: Bytes(mine), To: coll.BlocksOf(all)}, kindOf[T](), nil)
}

// Gatherv puts the mine of all ranks, of any lengths, into the root's all: that of rank r into all[r], which
// is as long. Every rank gives mine; only the root's all counts, and its mine may be its place there. Else
// as [Comm.Allgatherv]; only the root learns of lengths that do not fit.
func (c *Comm) Gatherv(mine []byte, all [][]byte, root int) error {
	return c.exchange(coll.Gatherv, coll.Args{In: mine, To: coll.BlocksOf(all), Root: root}, debug.Bytes, nil)
}

// Igatherv is the non-blocking [Comm.Gatherv].
func (c *Comm) Igatherv(mine []byte, all [][]byte, root int) Request {
	return c.iexchange(coll.Gatherv, coll.Args{In: mine, To: coll.BlocksOf(all), Root: root}, debug.Bytes, nil)
}

// Gatherv puts the slices of all ranks, of any lengths, into the slices in the root's all; the others give
// nil for it. See [Comm.Gatherv].
func Gatherv[T Number](c *Comm, mine []T, all [][]T, root int) error {
	return c.exchange(coll.Gatherv, coll.Args{In: Bytes(mine), To: coll.BlocksOf(all), Root: root}, kindOf[T](), nil)
}

// Igatherv is the non-blocking [Gatherv]; see [Comm.Gatherv].
func Igatherv[T Number](c *Comm, mine []T, all [][]T, root int) Request {
	return c.iexchange(coll.Gatherv, coll.Args{In: Bytes(mine), To: coll.BlocksOf(all), Root: root}, kindOf[T](), nil)
}

// Scatterv puts all[r] of the root, of any length, into the mine of rank r, which is as long. Every rank gives
// mine; only the root's all counts, which is only read, and its mine may be its place there. Nothing is sent
// to ranks that are agreed to have failed. Errors as of [Comm.Scatter]; each rank learns of a length that
// does not fit its own.
func (c *Comm) Scatterv(all [][]byte, mine []byte, root int) error {
	return c.exchange(coll.Scatterv, coll.Args{From: coll.BlocksOf(all), Out: mine, Root: root}, debug.Bytes, nil)
}

// Iscatterv is the non-blocking [Comm.Scatterv].
func (c *Comm) Iscatterv(all [][]byte, mine []byte, root int) Request {
	return c.iexchange(coll.Scatterv, coll.Args{From: coll.BlocksOf(all), Out: mine, Root: root}, debug.Bytes, nil)
}

// Scatterv puts the slices in the root's all, of any lengths, into the ranks' mine; the others give nil for
// all. See [Comm.Scatterv].
func Scatterv[T Number](c *Comm, all [][]T, mine []T, root int) error {
	return c.exchange(coll.Scatterv, coll.Args{From: coll.BlocksOf(all), Out: Bytes(mine), Root: root}, kindOf[T](), nil)
}

// Iscatterv is the non-blocking [Scatterv]; see [Comm.Scatterv].
func Iscatterv[T Number](c *Comm, all [][]T, mine []T, root int) Request {
	return c.iexchange(coll.Scatterv, coll.Args{From: coll.BlocksOf(all), Out: Bytes(mine), Root: root}, kindOf[T](), nil)
}

// Alltoallv sends send[r] to each rank r, and puts what rank r has for this one into recv[r], which is as
// long. Slices of the two may overlap, or be the same: then the operation works in memory of its own. Else
// as [Comm.Allgatherv].
func (c *Comm) Alltoallv(send, recv [][]byte) error {
	return c.exchange(coll.Alltoallv, coll.Args{From: coll.BlocksOf(send), To: coll.BlocksOf(recv)}, debug.Bytes, nil)
}

// Ialltoallv is the non-blocking [Comm.Alltoallv].
func (c *Comm) Ialltoallv(send, recv [][]byte) Request {
	return c.iexchange(coll.Alltoallv, coll.Args{From: coll.BlocksOf(send), To: coll.BlocksOf(recv)}, debug.Bytes, nil)
}

// Alltoallv sends each rank its slice in send and receives those of all ranks into the slices in recv, all of
// any lengths. See [Comm.Alltoallv].
func Alltoallv[T Number](c *Comm, send, recv [][]T) error {
	return c.exchange(coll.Alltoallv, coll.Args{From: coll.BlocksOf(send), To: coll.BlocksOf(recv)}, kindOf[T](), nil)
}

// Ialltoallv is the non-blocking [Alltoallv]; see [Comm.Alltoallv].
func Ialltoallv[T Number](c *Comm, send, recv [][]T) Request {
	return c.iexchange(coll.Alltoallv, coll.Args{From: coll.BlocksOf(send), To: coll.BlocksOf(recv)}, kindOf[T](), nil)
}

// ReduceScatterBlock folds the sends of all ranks with op, in the order of ranks, and leaves the block with the
// number of each rank in its recv. Send is Size() times as long as recv, the same at all ranks, and only
// read; recv may lie in it. Op is as in [Comm.Allreduce] and gets blocks. Ranks that are agreed to have
// failed contribute nothing.
//
// Errors as of [Comm.Barrier]; ErrArgument for no op and for lengths that do not fit. After one the buffers
// are as they were.
func (c *Comm) ReduceScatterBlock(send, recv []byte, op func(acc, in []byte)) error {
	return c.exchange(coll.ReduceScatterBlock, coll.Args{In: send, Out: recv, Fold: coll.Fold{Op: op}}, debug.Bytes, op)
}

// IreduceScatterBlock is the non-blocking [Comm.ReduceScatterBlock]. Op is called as by [Comm.Ireduce].
func (c *Comm) IreduceScatterBlock(send, recv []byte, op func(acc, in []byte)) Request {
	return c.iexchange(coll.ReduceScatterBlock, coll.Args{In: send, Out: recv, Fold: coll.Fold{Op: op}}, debug.Bytes, op)
}

// ReduceScatterBlock folds the sends of all ranks element by element and leaves the part of each rank, all of
// one length, in its recv. See [Comm.ReduceScatterBlock].
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
// Every rank gives the counts, the same at all; its own is the length of its recv. See
// [Comm.ReduceScatterBlock].
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

// Scan folds the sends of the ranks up to this one with op, in the order of ranks, and leaves the result in
// recv. Lengths are the same at all ranks; both slices may be the same, and send is only read otherwise. Op is
// as in [Comm.Allreduce]. Ranks that are agreed to have failed contribute nothing.
//
// Errors as of [Comm.Barrier]; ErrArgument for no op and for lengths that do not fit. A rank needs those below
// alone, so it may have success where others have not. After an error recv is undefined, and send is as it was. In
// place it may be lost; see [Comm.SetUniformity].
func (c *Comm) Scan(send, recv []byte, op func(acc, in []byte)) error {
	return c.exchange(coll.Scan, coll.Args{In: send, Out: recv, Fold: coll.Fold{Op: op}}, debug.Bytes, op)
}

// Iscan is the non-blocking [Comm.Scan]. Op is called as by [Comm.Ireduce].
func (c *Comm) Iscan(send, recv []byte, op func(acc, in []byte)) Request {
	return c.iexchange(coll.Scan, coll.Args{In: send, Out: recv, Fold: coll.Fold{Op: op}}, debug.Bytes, op)
}

// Scan folds the sends of the ranks up to this one element by element. See [Comm.Scan].
func Scan[T Number](c *Comm, send, recv []T, op func(a, b T) T) error {
	a := coll.Args{In: Bytes(send), Out: Bytes(recv), Fold: elementwise(op, nil)}
	return c.exchange(coll.Scan, a, debug.Bytes, op)
}

// Iscan is the non-blocking [Scan]; see [Comm.Scan].
func Iscan[T Number](c *Comm, send, recv []T, op func(a, b T) T) Request {
	a := coll.Args{In: Bytes(send), Out: Bytes(recv), Fold: elementwise(op, nil)}
	return c.iexchange(coll.Scan, a, debug.Bytes, op)
}

// Exscan is Scan without the send of this rank itself. The lowest rank that is not agreed to have failed has
// no result, and its recv stays as it is. See [Comm.Scan].
func (c *Comm) Exscan(send, recv []byte, op func(acc, in []byte)) error {
	return c.exchange(coll.Exscan, coll.Args{In: send, Out: recv, Fold: coll.Fold{Op: op}}, debug.Bytes, op)
}

// Iexscan is the non-blocking [Comm.Exscan]. Op is called as by [Comm.Ireduce].
func (c *Comm) Iexscan(send, recv []byte, op func(acc, in []byte)) Request {
	return c.iexchange(coll.Exscan, coll.Args{In: send, Out: recv, Fold: coll.Fold{Op: op}}, debug.Bytes, op)
}

// Exscan folds the sends of the ranks below this one element by element. See [Comm.Exscan].
func Exscan[T Number](c *Comm, send, recv []T, op func(a, b T) T) error {
	a := coll.Args{In: Bytes(send), Out: Bytes(recv), Fold: elementwise(op, nil)}
	return c.exchange(coll.Exscan, a, debug.Bytes, op)
}

// Iexscan is the non-blocking [Exscan]; see [Comm.Exscan].
func Iexscan[T Number](c *Comm, send, recv []T, op func(a, b T) T) Request {
	a := coll.Args{In: Bytes(send), Out: Bytes(recv), Fold: elementwise(op, nil)}
	return c.iexchange(coll.Exscan, a, debug.Bytes, op)
}

// Neighborhood is the ranks with which a rank exchanges blocks: see [NeighborAlltoall]. Package topology
// makes those of grids and graphs.
//
//	Sources  []int // a block comes from each, in this order; [ProcNull]: none, its place stays as it is
//	Dests    []int // a block goes to each, in this order; a rank may be there several times
//	Opposite bool  // both are pairs of directions: block i goes to the place i^1 of its receiver (MPI 8.6)
type Neighborhood = coll.Neighbors

// NeighborAlltoall sends each destination its block of send and puts those of the sources into recv, in
// their order (MPI_Neighbor_alltoall). All blocks are of one length. All ranks of c call it, each with its own
// neighbourhood: a rank is as often among the sources of another as that is among its destinations, and
// their messages match in order. The slices may overlap as in [Comm.Alltoall]. The places of ranks that are
// agreed to have failed stay as they are. A rank needs its neighbours alone: the failure of others is no error under [ULFM].
//
// Errors as of [Comm.Barrier]; ErrArgument for a rank that c does not have, and for lengths that do not fit.
func NeighborAlltoall[T Number](c *Comm, n Neighborhood, send, recv []T) error {
	return c.exchange(coll.NeighborAlltoall, flatArgs(n, send, recv), kindOf[T](), nil)
}

// IneighborAlltoall is the non-blocking [NeighborAlltoall].
func IneighborAlltoall[T Number](c *Comm, n Neighborhood, send, recv []T) Request {
	return c.iexchange(coll.NeighborAlltoall, flatArgs(n, send, recv), kindOf[T](), nil)
}

// NeighborAlltoallv is NeighborAlltoall with a slice for each neighbour, of any lengths: send[i] has that of the
// place of its receiver.
func NeighborAlltoallv[T Number](c *Comm, n Neighborhood, send, recv [][]T) error {
	a := coll.Args{From: coll.BlocksOf(send), To: coll.BlocksOf(recv), Neighbors: n}
	return c.exchange(coll.NeighborAlltoallv, a, kindOf[T](), nil)
}

// IneighborAlltoallv is the non-blocking [NeighborAlltoallv].
func IneighborAlltoallv[T Number](c *Comm, n Neighborhood, send, recv [][]T) Request {
	a := coll.Args{From: coll.BlocksOf(send), To: coll.BlocksOf(recv), Neighbors: n}
	return c.iexchange(coll.NeighborAlltoallv, a, kindOf[T](), nil)
}

// NeighborAllgather is NeighborAlltoall that sends all destinations the same.
func NeighborAllgather[T Number](c *Comm, n Neighborhood, mine, all []T) error {
	return c.exchange(coll.NeighborAllgather, flatArgs(n, mine, all), kindOf[T](), nil)
}

// IneighborAllgather is the non-blocking [NeighborAllgather].
func IneighborAllgather[T Number](c *Comm, n Neighborhood, mine, all []T) Request {
	return c.iexchange(coll.NeighborAllgather, flatArgs(n, mine, all), kindOf[T](), nil)
}

// NeighborAllgatherv is NeighborAllgather with a slice for each source, as long as what that sends.
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

// exchange runs a collective that blocks, of elements of a type, which folds with op or nil.
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

// iexchange starts one that does not block.
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

// described is the call as it is compared with those of other ranks.
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
// reduction, without communication (MPI_Reduce_local). The same slice may be both. Error: ErrArgument for no
// op, slices of different lengths, or slices that overlap otherwise; acc is then as it was.
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

// starting is begin, or what says at each start that there is none.
func starting(begin func(*Comm) Request) func(*Comm) Request {
	if begin != nil {
		return begin
	}
	return func(c *Comm) Request {
		return c.failed("Persistent", fmt.Errorf("%w: no function that starts an operation", ErrArgument))
	}
}
