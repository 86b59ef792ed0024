package intercomms

import (
	"encoding/binary"
	"slices"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// fold is the operation of a reduction: one that keeps the order of ranks, or one that commutes.
func (x call) fold(a, b uint64) uint64 {
	if x.number%2 == 1 {
		return a ^ b
	}
	p, q, r, s := uint32(a>>32), uint32(a), uint32(b>>32), uint32(b)
	return uint64(p*r)<<32 | uint64(q*r+s)
}

// foldBytes is fold of all words of two buffers.
func (x call) foldBytes(acc, in []byte) {
	le := binary.NativeEndian
	for i := 0; i < len(acc); i += 8 {
		le.PutUint64(acc[i:], x.fold(le.Uint64(acc[i:]), le.Uint64(in[i:])))
	}
}

func (x call) order() banyan.Order { return banyan.Order(x.number % 2) }

// cut gives the parts of a buffer; nil of none.
func cut[T any](buf []T, lengths []int, unit int) (parts [][]T) {
	for _, n := range lengths {
		parts, buf = append(parts, buf[:n*unit:n*unit]), buf[n*unit:]
	}
	return parts
}

// scaled are lengths of words in bytes.
func scaled(words []int) []int {
	out := slices.Clone(words)
	for i := range out {
		out[i] *= 8
	}
	return out
}

// block makes the blocking call.
func (x call) block(b bridge, p *place) error {
	if !x.typed {
		return x.blockBytes(b, p)
	}
	c, root := b.c, x.names(b)
	switch x.kind {
	case ranktest.Barrier:
		return c.Barrier()
	case ranktest.Bcast:
		return banyan.Bcast(c, p.out, root)
	case ranktest.Reduce:
		return banyan.Reduce(c, p.in, p.out, x.fold, root, x.order())
	case ranktest.Allreduce:
		return banyan.Allreduce(c, p.in, p.out, x.fold, x.order())
	case ranktest.Gather:
		return banyan.Gather(c, p.in, p.out, root)
	case ranktest.Scatter:
		return banyan.Scatter(c, p.in, p.out, root)
	case ranktest.Allgather:
		return banyan.Allgather(c, p.in, p.out)
	case ranktest.Alltoall:
		return banyan.Alltoall(c, p.in, p.out)
	case ranktest.Allgatherv:
		return banyan.Allgatherv(c, p.in, cut(p.out, p.receives, 1))
	case ranktest.Gatherv:
		return banyan.Gatherv(c, p.in, cut(p.out, p.receives, 1), root)
	case ranktest.Scatterv:
		return banyan.Scatterv(c, cut(p.in, p.sends, 1), p.out, root)
	case ranktest.Alltoallv:
		return banyan.Alltoallv(c, cut(p.in, p.sends, 1), cut(p.out, p.receives, 1))
	case ranktest.ReduceScatter:
		return banyan.ReduceScatter(c, p.in, p.out, p.receives, x.fold)
	}
	return banyan.ReduceScatterBlock(c, p.in, p.out, x.fold)
}

func (x call) blockBytes(b bridge, p *place) error {
	c, root, in, out := b.c, x.names(b), banyan.Bytes(p.in), banyan.Bytes(p.out)
	switch x.kind {
	case ranktest.Barrier:
		return c.Barrier()
	case ranktest.Bcast:
		return c.Bcast(out, root)
	case ranktest.Reduce:
		return c.Reduce(in, out, x.foldBytes, root, x.order())
	case ranktest.Allreduce:
		return c.Allreduce(in, out, x.foldBytes, x.order())
	case ranktest.Gather:
		return c.Gather(in, out, root)
	case ranktest.Scatter:
		return c.Scatter(in, out, root)
	case ranktest.Allgather:
		return c.Allgather(in, out)
	case ranktest.Alltoall:
		return c.Alltoall(in, out)
	case ranktest.Allgatherv:
		return c.Allgatherv(in, cut(out, p.receives, 8))
	case ranktest.Gatherv:
		return c.Gatherv(in, cut(out, p.receives, 8), root)
	case ranktest.Scatterv:
		return c.Scatterv(cut(in, p.sends, 8), out, root)
	case ranktest.Alltoallv:
		return c.Alltoallv(cut(in, p.sends, 8), cut(out, p.receives, 8))
	case ranktest.ReduceScatter:
		return c.ReduceScatter(in, out, scaled(p.receives), x.foldBytes)
	}
	return c.ReduceScatterBlock(in, out, x.foldBytes)
}

// start starts the non-blocking call.
func (x call) start(b bridge, p *place) banyan.Request {
	if !x.typed {
		return x.startBytes(b, p)
	}
	c, root := b.c, x.names(b)
	switch x.kind {
	case ranktest.Barrier:
		return c.Ibarrier()
	case ranktest.Bcast:
		return banyan.Ibcast(c, p.out, root)
	case ranktest.Reduce:
		return banyan.Ireduce(c, p.in, p.out, x.fold, root, x.order())
	case ranktest.Allreduce:
		return banyan.Iallreduce(c, p.in, p.out, x.fold, x.order())
	case ranktest.Gather:
		return banyan.Igather(c, p.in, p.out, root)
	case ranktest.Scatter:
		return banyan.Iscatter(c, p.in, p.out, root)
	case ranktest.Allgather:
		return banyan.Iallgather(c, p.in, p.out)
	case ranktest.Alltoall:
		return banyan.Ialltoall(c, p.in, p.out)
	case ranktest.Allgatherv:
		return banyan.Iallgatherv(c, p.in, cut(p.out, p.receives, 1))
	case ranktest.Gatherv:
		return banyan.Igatherv(c, p.in, cut(p.out, p.receives, 1), root)
	case ranktest.Scatterv:
		return banyan.Iscatterv(c, cut(p.in, p.sends, 1), p.out, root)
	case ranktest.Alltoallv:
		return banyan.Ialltoallv(c, cut(p.in, p.sends, 1), cut(p.out, p.receives, 1))
	case ranktest.ReduceScatter:
		return banyan.IreduceScatter(c, p.in, p.out, p.receives, x.fold)
	}
	return banyan.IreduceScatterBlock(c, p.in, p.out, x.fold)
}

func (x call) startBytes(b bridge, p *place) banyan.Request {
	c, root, in, out := b.c, x.names(b), banyan.Bytes(p.in), banyan.Bytes(p.out)
	switch x.kind {
	case ranktest.Barrier:
		return c.Ibarrier()
	case ranktest.Bcast:
		return c.Ibcast(out, root)
	case ranktest.Reduce:
		return c.Ireduce(in, out, x.foldBytes, root, x.order())
	case ranktest.Allreduce:
		return c.Iallreduce(in, out, x.foldBytes, x.order())
	case ranktest.Gather:
		return c.Igather(in, out, root)
	case ranktest.Scatter:
		return c.Iscatter(in, out, root)
	case ranktest.Allgather:
		return c.Iallgather(in, out)
	case ranktest.Alltoall:
		return c.Ialltoall(in, out)
	case ranktest.Allgatherv:
		return c.Iallgatherv(in, cut(out, p.receives, 8))
	case ranktest.Gatherv:
		return c.Igatherv(in, cut(out, p.receives, 8), root)
	case ranktest.Scatterv:
		return c.Iscatterv(cut(in, p.sends, 8), out, root)
	case ranktest.Alltoallv:
		return c.Ialltoallv(cut(in, p.sends, 8), cut(out, p.receives, 8))
	case ranktest.ReduceScatter:
		return c.IreduceScatter(in, out, scaled(p.receives), x.foldBytes)
	}
	return c.IreduceScatterBlock(in, out, x.foldBytes)
}
