package intercomms

import (
	"fmt"
	"slices"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// bridge is an intercommunicator as one rank has it. Its sides are 0 and 1, the same for all ranks.
type bridge struct {
	c    *banyan.Comm
	side int
	gone [2][]int // ranks by side that are agreed to have failed
}

// n is the number of ranks of a side.
func (b bridge) n(side int) int {
	if side == b.side {
		return b.c.Size()
	}
	return b.c.RemoteGroup().Size()
}

func (b bridge) left(side int) []int {
	return slices.DeleteFunc(ranktest.Iota(b.n(side)), func(rank int) bool { return slices.Contains(b.gone[side], rank) })
}

// kinds are the collectives that an intercommunicator has.
var kinds = []ranktest.CollectiveKind{ranktest.Barrier, ranktest.Bcast, ranktest.Reduce, ranktest.Allreduce,
	ranktest.Gather, ranktest.Scatter, ranktest.Allgather, ranktest.Alltoall, ranktest.Allgatherv, ranktest.Gatherv,
	ranktest.Scatterv, ranktest.Alltoallv, ranktest.ReduceScatter, ranktest.ReduceScatterBlock}

// call is one call of a collective, the same at all ranks of both sides, and the sequential program that computes
// its result.
type call struct {
	kind               ranktest.CollectiveKind
	number             int // decides the data; an even reduction keeps the order
	side, root         int // where the root is
	size               int // in words; the other side's blocks are longer where they may
	typed, nonblocking bool
}

func (x call) String() string {
	return fmt.Sprintf("%v of %d words, number %d, root %d of side %d, typed %v, non-blocking %v", x.kind, x.size,
		x.number, x.root, x.side, x.typed, x.nonblocking)
}

// id is the number under which ranktest has the data of a rank of a side.
func id(side, rank int) int { return rank + 1000*side }

// data is the data of a rank for another one, or for all as for the id 0.
func (x call) data(from, to, size int) []uint64 {
	return ranktest.Collective{Number: x.number + 4096*to, Size: size}.Block(from)
}

// width is the length of blocks that a side gives.
func (x call) width(side int) int { return x.size*(1+side) + side }

// between is the length of the data of one rank for another, where any two may differ.
func (x call) between(from, to int) int { return x.size*(1+(from+to)%3) + (from+to)%2 }

// place is the buffers of one rank. The last two are the lengths of blocks, where they may differ.
type place struct {
	in, out, want   []uint64
	sends, receives []int
}

// of gives the place of a rank in the call.
func (x call) of(b bridge) place {
	near, far := b.side, 1-b.side
	me := id(near, b.c.Rank())
	root, rooted := id(x.side, x.root), x.side == near && x.root == b.c.Rank()
	lost := slices.Contains(b.gone[x.side], x.root)
	switch x.kind {
	case ranktest.Barrier:
		return place{}
	case ranktest.Bcast:
		p := place{out: ranktest.Blank(x.size), want: x.data(root, 0, x.size)}
		if rooted {
			p.out = slices.Clone(p.want)
		} else if lost || x.side == near {
			p.want = slices.Clone(p.out)
		}
		return p
	case ranktest.Reduce:
		p := place{in: x.data(me, 0, x.size), out: ranktest.Blank(x.size)}
		if p.want = slices.Clone(p.out); rooted {
			p.in, p.want = nil, x.folded(b, far, x.size, p.out)
		}
		return p
	case ranktest.Allreduce:
		out := ranktest.Blank(x.size)
		return place{in: x.data(me, 0, x.size), out: out, want: x.folded(b, far, x.size, out)}
	case ranktest.ReduceScatter, ranktest.ReduceScatterBlock:
		return x.scattered(b, me)
	}
	switch x.kind {
	case ranktest.Gather, ranktest.Gatherv:
		if x.side != near {
			return place{in: x.data(me, 0, x.length(near, me, 0))}
		}
		if !rooted {
			return place{}
		}
	case ranktest.Scatter, ranktest.Scatterv:
		if x.side != near {
			want := x.data(root, 1+b.c.Rank(), x.length(far, root, me))
			out := ranktest.Blank(len(want))
			if lost {
				want = slices.Clone(out)
			}
			return place{out: out, want: want}
		}
		if !rooted {
			return place{}
		}
	}
	return x.exchanged(b, me)
}

// length is that of the data of one rank, of a side, for another.
func (x call) length(side, from, to int) int {
	switch x.kind {
	case ranktest.Gatherv, ranktest.Allgatherv:
		return x.between(from, 0)
	case ranktest.Scatterv, ranktest.Alltoallv:
		return x.between(from, to)
	}
	return x.width(side)
}

// exchanged is the place of a rank that has a block for each of the other side, or gets one.
func (x call) exchanged(b bridge, me int) (p place) {
	far := 1 - b.side
	gets := x.kind != ranktest.Scatter && x.kind != ranktest.Scatterv
	toAll := x.kind == ranktest.Allgather || x.kind == ranktest.Allgatherv
	gives := !toAll && x.kind != ranktest.Gather && x.kind != ranktest.Gatherv
	if toAll {
		p.in = x.data(me, 0, x.length(b.side, me, 0))
	}
	for rank := range b.n(far) {
		other := id(far, rank)
		if gives {
			block := x.data(me, 1+rank, x.length(b.side, me, other))
			p.in, p.sends = append(p.in, block...), append(p.sends, len(block))
		}
		if !gets {
			continue
		}
		to := 0
		if gives {
			to = 1 + b.c.Rank()
		}
		block := x.data(other, to, x.length(far, other, me))
		if p.receives = append(p.receives, len(block)); slices.Contains(b.gone[far], rank) {
			block = ranktest.Blank(len(block))
		}
		p.want = append(p.want, block...)
	}
	p.out = ranktest.Blank(len(p.want))
	return p
}

// folded is the fold of the remaining ranks of a side; without any it is the old contents.
func (x call) folded(b bridge, side, size int, before []uint64) []uint64 {
	var ids []int
	for _, rank := range b.left(side) {
		ids = append(ids, id(side, rank))
	}
	if ids == nil {
		return slices.Clone(before)
	}
	return ranktest.Collective{Number: x.number, Size: size}.Folded(ids)
}

// scattered is the place of a rank in a reduce-scatter. Both sides give as much, which they divide among
// themselves.
func (x call) scattered(b bridge, me int) place {
	n := b.c.Size()
	total := x.size * n * b.n(1-b.side)
	counts := slices.Repeat([]int{total / n}, n)
	if x.kind == ranktest.ReduceScatter && n > 1 {
		counts[0], counts[n-1] = 0, counts[0]+counts[n-1]
	}
	out := ranktest.Blank(counts[b.c.Rank()])
	p := place{in: x.data(me, 0, total), out: out, want: slices.Clone(out), receives: counts}
	at := 0
	for _, count := range counts[:b.c.Rank()] {
		at += count
	}
	if len(b.left(1-b.side)) > 0 {
		p.want = x.folded(b, 1-b.side, total, nil)[at:][:len(out)]
	}
	return p
}

// names is the root that a rank gives.
func (x call) names(b bridge) int {
	switch {
	case x.side != b.side:
		return x.root
	case x.root == b.c.Rank():
		return banyan.Root
	}
	return banyan.ProcNull
}

// check makes the call and compares its result.
func (x call) check(b bridge) error {
	p := x.of(b)
	if err := x.do(b, &p); err != nil {
		return fmt.Errorf("%v: %w", x, err)
	}
	return x.compare(b, &p)
}

func (x call) compare(b bridge, p *place) error {
	if !slices.Equal(p.out, p.want) {
		return fmt.Errorf("%v: wrong result at rank %d of side %d: %d words", x, b.c.Rank(), b.side, len(p.out))
	}
	return nil
}

// do makes the call and waits for its end.
func (x call) do(b bridge, p *place) error {
	if !x.nonblocking {
		return x.block(b, p)
	}
	_, err := x.start(b, p).Wait()
	return err
}
