package ranktest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/banyan-hpc/banyan"
)

// CollectiveKind is a collective operation.
type CollectiveKind int

// InPlace is an Allgather whose own block lies in the result.
const (
	Barrier CollectiveKind = iota
	Bcast
	Reduce
	Allreduce
	Gather
	Scatter
	Allgather
	InPlace
	Alltoall
	Allgatherv
	Gatherv
	Scatterv
	Alltoallv
	ReduceScatter
	ReduceScatterBlock
	Scan
	Exscan
	CollectiveKinds
)

// String is the name in lower case.
func (k CollectiveKind) String() string {
	return []string{"barrier", "bcast", "reduce", "allreduce", "gather", "scatter", "allgather",
		"allgather in place", "alltoall", "allgatherv", "gatherv", "scatterv", "alltoallv",
		"reduce-scatter", "reduce-scatter of blocks", "scan", "exscan"}[k]
}

// Collective is one call of a collective, the same at all ranks, and the sequential program that
// computes its result.
type Collective struct {
	Kind   CollectiveKind
	Number int  // decides the data; an even reduction keeps the order, an odd one commutes
	Root   int  // of Bcast, Reduce, Gather and Scatter
	Size   int  // of a block, in words of eight bytes
	Typed  bool // by the generic functions instead of the methods on bytes
}

// String is the call as a person reads it.
func (o Collective) String() string {
	return fmt.Sprintf("%v of %d words, root %d, number %d, typed %v", o.Kind, o.Size, o.Root, o.Number, o.Typed)
}

// Untouched fills the places of a buffer that nothing writes.
const Untouched = 0xfeedface

// Blank is a buffer in which nothing is written yet.
func Blank(n int) []uint64 { return slices.Repeat([]uint64{Untouched}, n) }

// Block is the contribution of a rank. Its words stand for affine functions that lose nothing.
func (o Collective) Block(rank int) []uint64 {
	out := make([]uint64, o.Size)
	for i := range out {
		x := (uint64(rank+1)<<32 ^ uint64(i+1) ^ uint64(o.Number)<<17) * 0x9e3779b97f4a7c15
		out[i] = (x ^ x>>29) | 1<<32
	}
	return out
}

// blocks are those of all n ranks, without those of failed ones.
func (o Collective) blocks(n int, failed []int) []uint64 {
	all := Blank(n * o.Size)
	for rank := range n {
		if !slices.Contains(failed, rank) {
			copy(all[rank*o.Size:], o.Block(rank))
		}
	}
	return all
}

// affine composes two functions x -> a*x+b of 32-bit numbers, each packed in a word.
func affine(f, g uint64) uint64 {
	a, b, c, d := uint32(f>>32), uint32(f), uint32(g>>32), uint32(g)
	return uint64(a*c)<<32 | uint64(b*c+d)
}

// op is the operation of a reduction: associative, and commutative if the order is of no matter.
func (o Collective) op() (func(a, b uint64) uint64, banyan.Order) {
	if o.Number%2 == 0 {
		return affine, banyan.InOrder
	}
	return banyan.Xor[uint64], banyan.AnyOrder
}

// Folded is the result of a reduction over these ranks.
func (o Collective) Folded(ranks []int) []uint64 {
	op, _ := o.op()
	out := o.Block(ranks[0])
	for _, rank := range ranks[1:] {
		for i, x := range o.Block(rank) {
			out[i] = op(out[i], x)
		}
	}
	return out
}

// Buffers returns the buffer that the call writes, and its expected contents afterwards; nil if
// nothing is promised, or written.
func (o Collective) Buffers(c *banyan.Comm, failed ...int) (buf, want []uint64) {
	n, me := c.Size(), c.Rank()
	own, rootFailed := o.Block(me), slices.Contains(failed, o.Root)
	living := slices.DeleteFunc(Iota(n), func(rank int) bool { return slices.Contains(failed, rank) })
	switch o.Kind {
	case Barrier:
	case Bcast:
		if buf, want = own, o.Block(o.Root); rootFailed {
			want = slices.Clone(own)
		}
	case Reduce:
		buf = own
		if me == o.Root {
			want = o.Folded(living)
		} else if rootFailed {
			want = slices.Clone(own)
		}
	case Allreduce:
		buf, want = own, o.Folded(living)
	case Gather:
		if me == o.Root {
			buf, want = Blank(n*o.Size), o.blocks(n, failed)
		}
	case Scatter:
		if buf, want = Blank(o.Size), own; rootFailed {
			want = Blank(o.Size)
		}
	case Allgather:
		buf, want = Blank(n*o.Size), o.blocks(n, failed)
	case InPlace:
		buf, want = Blank(n*o.Size), o.blocks(n, failed)
		copy(buf[me*o.Size:], own)
	default:
		buf, want = o.exchanged(n, me, failed)
	}
	return buf, want
}

// gives is the contribution of this rank, in a buffer of its own.
func (o Collective) gives(c *banyan.Comm, buf []uint64) []uint64 {
	switch {
	case o.Kind == Scatter && c.Rank() == o.Root:
		return o.blocks(c.Size(), nil)
	case o.Kind == Scatter:
		return nil
	case o.Kind == InPlace:
		return buf[c.Rank()*o.Size:][:o.Size]
	case (o.Kind == Reduce || o.Kind == Allreduce) && o.Number%4 < 2: // half of them in place
		return buf
	}
	return o.Block(c.Rank())
}

// onBytes is an operation on words as one on bytes.
func onBytes(op func(a, b uint64) uint64) func(acc, in []byte) {
	le := binary.NativeEndian
	return func(acc, in []byte) {
		for i := 0; i < len(acc); i += 8 {
			le.PutUint64(acc[i:], op(le.Uint64(acc[i:]), le.Uint64(in[i:])))
		}
	}
}

// Call makes the blocking call.
func (o Collective) Call(c *banyan.Comm, buf []uint64) error {
	if o.Kind >= Alltoall {
		return o.exchange(c, buf)
	}
	if o.Typed {
		return o.callTyped(c, buf)
	}
	op, order := o.op()
	b, mine := banyan.Bytes(buf), banyan.Bytes(o.gives(c, buf))
	switch o.Kind {
	case Barrier:
		return c.Barrier()
	case Bcast:
		return c.Bcast(b, o.Root)
	case Reduce:
		return c.Reduce(mine, b, onBytes(op), o.Root, order)
	case Allreduce:
		return c.Allreduce(mine, b, onBytes(op), order)
	case Gather:
		return c.Gather(mine, b, o.Root)
	case Scatter:
		return c.Scatter(mine, b, o.Root)
	}
	return c.Allgather(mine, b)
}

func (o Collective) callTyped(c *banyan.Comm, buf []uint64) error {
	op, order := o.op()
	mine := o.gives(c, buf)
	switch o.Kind {
	case Barrier:
		return c.Barrier()
	case Bcast:
		return banyan.Bcast(c, buf, o.Root)
	case Reduce:
		return banyan.Reduce(c, mine, buf, op, o.Root, order)
	case Allreduce:
		return banyan.Allreduce(c, mine, buf, op, order)
	case Gather:
		return banyan.Gather(c, mine, buf, o.Root)
	case Scatter:
		return banyan.Scatter(c, mine, buf, o.Root)
	}
	return banyan.Allgather(c, mine, buf)
}

// Start starts the non-blocking call.
func (o Collective) Start(c *banyan.Comm, buf []uint64) banyan.Request {
	if o.Kind >= Alltoall {
		return o.startExchange(c, buf)
	}
	if o.Typed {
		return o.startTyped(c, buf)
	}
	op, order := o.op()
	b, mine := banyan.Bytes(buf), banyan.Bytes(o.gives(c, buf))
	switch o.Kind {
	case Barrier:
		return c.Ibarrier()
	case Bcast:
		return c.Ibcast(b, o.Root)
	case Reduce:
		return c.Ireduce(mine, b, onBytes(op), o.Root, order)
	case Allreduce:
		return c.Iallreduce(mine, b, onBytes(op), order)
	case Gather:
		return c.Igather(mine, b, o.Root)
	case Scatter:
		return c.Iscatter(mine, b, o.Root)
	}
	return c.Iallgather(mine, b)
}

func (o Collective) startTyped(c *banyan.Comm, buf []uint64) banyan.Request {
	op, order := o.op()
	mine := o.gives(c, buf)
	switch o.Kind {
	case Barrier:
		return c.Ibarrier()
	case Bcast:
		return banyan.Ibcast(c, buf, o.Root)
	case Reduce:
		return banyan.Ireduce(c, mine, buf, op, o.Root, order)
	case Allreduce:
		return banyan.Iallreduce(c, mine, buf, op, order)
	case Gather:
		return banyan.Igather(c, mine, buf, o.Root)
	case Scatter:
		return banyan.Iscatter(c, mine, buf, o.Root)
	}
	return banyan.Iallgather(c, mine, buf)
}

// Do makes the call in either way and waits for its end.
func (o Collective) Do(c *banyan.Comm, buf []uint64, nonblocking bool) error {
	if !nonblocking {
		return o.Call(c, buf)
	}
	_, err := o.Start(c, buf).Wait()
	return err
}

// Check makes the call on a communicator whose failed ranks have been validated, and checks its
// result.
func (o Collective) Check(c *banyan.Comm, nonblocking bool, failed ...int) error {
	buf, want := o.Buffers(c, failed...)
	if err := o.Do(c, buf, nonblocking); err != nil {
		return fmt.Errorf("%v, non-blocking %v: %w", o, nonblocking, err)
	}
	if want != nil && !slices.Equal(buf, want) {
		return fmt.Errorf("%v, non-blocking %v: wrong result at rank %d of %d", o, nonblocking, c.Rank(), c.Size())
	}
	return nil
}

// CheckCollectives checks every collective, with every root, on a communicator whose failed ranks
// have been validated. Results are those of the living ranks; the places of failed ranks stay
// untouched.
func CheckCollectives(c *banyan.Comm, failed []int) error {
	number := 0
	for root := range c.Size() {
		for kind := range CollectiveKinds {
			rooted := slices.Contains([]CollectiveKind{Bcast, Reduce, Gather, Scatter, Gatherv, Scatterv}, kind)
			if root > 0 && !rooted {
				continue
			}
			o := Collective{Kind: kind, Number: number, Root: root, Size: 1, Typed: root%2 == 0}
			if kind == Bcast {
				o.Size = 1 + root%2*1200
			}
			if err := o.Check(c, false, failed...); err != nil {
				return err
			}
			number++
		}
	}
	return nil
}

// CheckCollectivesAndSplit is [CheckCollectives] and a split.
func CheckCollectivesAndSplit(c *banyan.Comm, failed []int) error {
	if err := CheckCollectives(c, failed); err != nil {
		return err
	}
	me := c.Rank()
	part, err := c.Split(me%2, -me)
	if err != nil {
		return err
	}
	team := slices.DeleteFunc(Iota(c.Size()), func(rank int) bool {
		return slices.Contains(failed, rank) || rank%2 != me%2
	})
	slices.Reverse(team)
	if got := RanksIn(part.Group(), c); !slices.Equal(got, team) {
		return fmt.Errorf("rank %d of %d without %v: split: got %v, want %v", me, c.Size(), failed, got, team)
	}
	return errors.Join(part.Barrier(), part.Free())
}
