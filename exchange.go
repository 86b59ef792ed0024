package banyan

import (
	"fmt"

	"github.com/banyan-hpc/banyan/coll"
	"github.com/banyan-hpc/banyan/internal/debug"
	"github.com/banyan-hpc/banyan/p2p"
)

// Collectives in which each rank has a block for each other one. The rules of collective.go hold.

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
	return c.exchange(coll.Alltoall, coll.Args{In: send, Out: recv}, debug.Bytes)
}

// Ialltoall is the non-blocking [Comm.Alltoall].
func (c *Comm) Ialltoall(send, recv []byte) Request {
	return c.iexchange(coll.Alltoall, coll.Args{In: send, Out: recv}, debug.Bytes)
}

// Alltoall sends each rank its part of send and receives those of all ranks into recv, in the order of
// ranks; all parts are of the same length. See [Comm.Alltoall].
func Alltoall[T Number](c *Comm, send, recv []T) error {
	return c.exchange(coll.Alltoall, coll.Args{In: Bytes(send), Out: Bytes(recv)}, kindOf[T]())
}

// Ialltoall is the non-blocking [Alltoall]; see [Comm.Ialltoall].
func Ialltoall[T Number](c *Comm, send, recv []T) Request {
	return c.iexchange(coll.Alltoall, coll.Args{In: Bytes(send), Out: Bytes(recv)}, kindOf[T]())
}

// exchange runs a collective that blocks, of elements of a type.
func (c *Comm) exchange(k coll.Kind, a coll.Args, t debug.Kind) error {
	if !c.usual() {
		return c.exchangeOther(k, a, t)
	}
	return c.notify(c.coll.Do(c.core, c.call(nil, manner{}), k, a))
}

func (c *Comm) exchangeOther(k coll.Kind, a coll.Args, t debug.Kind) error {
	return c.collective(described(k, true, &a, t), nil, func(c *Comm, m manner) error {
		return c.coll.Do(c.core, c.call(nil, m), k, a)
	})
}

// iexchange starts one that does not block.
func (c *Comm) iexchange(k coll.Kind, a coll.Args, t debug.Kind) Request {
	if !c.usual() {
		return c.iexchangeOther(k, a, t)
	}
	return Request{c.coll.Start(c.core, c.call(nil, manner{}), k, a), c}
}

func (c *Comm) iexchangeOther(k coll.Kind, a coll.Args, t debug.Kind) Request {
	d := described(k, false, &a, t)
	return c.icollective(d, a.In, a.Out, func(c *Comm, in, out []byte, m manner) p2p.Handle {
		a.In, a.Out = in, out
		return c.coll.Start(c.core, c.call(nil, m), k, a)
	})
}

// described is the call as it is compared with those of other ranks.
func described(k coll.Kind, blocks bool, a *coll.Args, t debug.Kind) debug.Collective {
	return debug.Collective{Op: k.Name(blocks), Root: debug.None, Length: len(a.In), Kind: t}
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
