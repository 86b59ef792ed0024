package ranktest

import (
	"slices"

	"github.com/banyan-hpc/banyan"
)

// The collectives whose result comes from messages of all ranks, or goes to them, over no tree. Half of the
// calls are in place.

func (o Collective) inPlace() bool { return o.Number%4 < 2 }

// length is the number of words that a rank has for another one, and this for the first. Where lengths may
// differ they do for any two neighbours, and are 0 for some if Size is.
func (o Collective) length(a, b int) int {
	switch o.Kind {
	case Alltoall, ReduceScatterBlock, Scan, Exscan:
		return o.Size
	}
	return o.Size*(1+(a+b)%3) + (a+b)%2
}

// piece is the piece from one rank to another one, or to all as to rank 0.
func (o Collective) piece(from, to int) []uint64 {
	o.Size = o.length(from, to)
	o.Number += 4096 * (to + 1)
	return o.Block(from)
}

// all are n pieces in the order of ranks.
func all(n int, piece func(rank int) []uint64) (out []uint64) {
	for rank := range n {
		out = append(out, piece(rank)...)
	}
	return out
}

// received is Buffers of a rank that gets a piece of each rank. In place it holds this rank's own
// pieces before.
func (o Collective) received(before []uint64, piece func(from int) []uint64, n int, failed []int) (buf, want []uint64) {
	if buf = before; !o.inPlace() {
		buf = Blank(len(before))
	}
	want = slices.Clone(buf)
	at := 0
	for from := range n {
		got := piece(from)
		if !slices.Contains(failed, from) {
			copy(want[at:], got)
		}
		at += len(got)
	}
	return buf, want
}

// exchanged is Buffers of the collectives of this file.
func (o Collective) exchanged(n, me int, failed []int) (buf, want []uint64) {
	switch o.Kind {
	case Scatterv:
		buf, want = Blank(o.length(me, 0)), o.piece(me, 0)
		if slices.Contains(failed, o.Root) {
			want = slices.Clone(buf)
		}
		return buf, want
	case ReduceScatter, ReduceScatterBlock:
		return Blank(o.length(me, 0)), o.foldedPart(n, me, failed)
	case Scan, Exscan:
		return o.scanned(me, failed)
	case Gatherv, Allgatherv:
		if o.Kind == Gatherv && me != o.Root {
			return nil, nil
		}
		before := Blank(len(all(n, o.toAll)))
		copy(o.split(before, n, 0)[me], o.toAll(me))
		return o.received(before, o.toAll, n, failed)
	}
	return o.received(all(n, func(to int) []uint64 { return o.piece(me, to) }),
		func(from int) []uint64 { return o.piece(from, me) }, n, failed)
}

// foldedPart is a rank's part in a reduction of the pieces for all ranks.
func (o Collective) foldedPart(n, me int, failed []int) []uint64 {
	living := slices.DeleteFunc(Iota(n), func(rank int) bool { return slices.Contains(failed, rank) })
	whole := o
	whole.Size = o.total(n)
	return o.split(whole.Folded(living), n, 0)[me]
}

// total is the length of the pieces for all ranks.
func (o Collective) total(n int) (sum int) {
	for rank := range n {
		sum += o.length(rank, 0)
	}
	return sum
}

// scanned is Buffers for the folds of the ranks up to this one, or of the ranks below.
func (o Collective) scanned(me int, failed []int) (buf, want []uint64) {
	up := me + 1
	if o.Kind == Exscan {
		up = me
	}
	buf = Blank(o.Size)
	if o.inPlace() {
		buf = o.Block(me)
	}
	living := slices.DeleteFunc(Iota(up), func(rank int) bool { return slices.Contains(failed, rank) })
	if len(living) == 0 {
		return buf, slices.Clone(buf)
	}
	return buf, o.Folded(living)
}

func (o Collective) toAll(from int) []uint64 { return o.piece(from, 0) }

// split cuts a buffer with a piece of each rank.
func (o Collective) split(buf []uint64, n, me int) (out [][]uint64) {
	for rank := range n {
		length := o.length(rank, me)
		out, buf = append(out, buf[:length:length]), buf[length:]
	}
	return out
}

// outgoing is the send buffer of a rank whose result is stored in buf: pieces for each rank, or the
// same for all.
func (o Collective) outgoing(c *banyan.Comm, buf []uint64) []uint64 {
	n, me := c.Size(), c.Rank()
	switch o.Kind {
	case Scatterv:
		return all(n, o.toAll)
	case Gatherv, Allgatherv:
		if o.inPlace() && buf != nil {
			return o.split(buf, n, 0)[me]
		}
		return o.toAll(me)
	}
	switch {
	case o.Kind == ReduceScatter || o.Kind == ReduceScatterBlock:
		o.Size = o.total(n)
		return o.Block(me)
	case o.inPlace():
		return buf
	case o.Kind == Scan || o.Kind == Exscan:
		return o.Block(me)
	}
	return all(n, func(to int) []uint64 { return o.piece(me, to) })
}

// many is split for the collectives that take slices of slices; nil where only the root's count.
func (o Collective) many(c *banyan.Comm, buf []uint64) [][]uint64 {
	switch {
	case (o.Kind == Scatterv || o.Kind == Gatherv) && c.Rank() != o.Root:
		return nil
	case o.Kind == Alltoallv:
		return o.split(buf, c.Size(), c.Rank())
	}
	return o.split(buf, c.Size(), 0)
}

// exchange makes the blocking call.
func (o Collective) exchange(c *banyan.Comm, buf []uint64) error {
	if !o.Typed {
		return o.exchangeBytes(c, buf)
	}
	mine := o.outgoing(c, buf)
	op, _ := o.op()
	switch o.Kind {
	case Alltoall:
		return banyan.Alltoall(c, mine, buf)
	case Allgatherv:
		return banyan.Allgatherv(c, mine, o.many(c, buf))
	case Gatherv:
		return banyan.Gatherv(c, mine, o.many(c, buf), o.Root)
	case Scatterv:
		return banyan.Scatterv(c, o.many(c, mine), buf, o.Root)
	case ReduceScatter:
		return banyan.ReduceScatter(c, mine, buf, o.counts(c.Size(), 1), op)
	case ReduceScatterBlock:
		return banyan.ReduceScatterBlock(c, mine, buf, op)
	case Scan:
		return banyan.Scan(c, mine, buf, op)
	case Exscan:
		return banyan.Exscan(c, mine, buf, op)
	}
	return banyan.Alltoallv(c, o.many(c, mine), o.many(c, buf))
}

func (o Collective) exchangeBytes(c *banyan.Comm, buf []uint64) error {
	mine := o.outgoing(c, buf)
	op, _ := o.op()
	b, out := banyan.Bytes(buf), banyan.Bytes(mine)
	switch o.Kind {
	case Alltoall:
		return c.Alltoall(out, b)
	case Allgatherv:
		return c.Allgatherv(out, bytesOf(o.many(c, buf)))
	case Gatherv:
		return c.Gatherv(out, bytesOf(o.many(c, buf)), o.Root)
	case Scatterv:
		return c.Scatterv(bytesOf(o.many(c, mine)), b, o.Root)
	case ReduceScatter:
		return c.ReduceScatter(out, b, o.counts(c.Size(), 8), onBytes(op))
	case ReduceScatterBlock:
		return c.ReduceScatterBlock(out, b, onBytes(op))
	case Scan:
		return c.Scan(out, b, onBytes(op))
	case Exscan:
		return c.Exscan(out, b, onBytes(op))
	}
	return c.Alltoallv(bytesOf(o.many(c, mine)), bytesOf(o.many(c, buf)))
}

// startExchange starts the non-blocking call.
func (o Collective) startExchange(c *banyan.Comm, buf []uint64) banyan.Request {
	if !o.Typed {
		return o.startExchangeBytes(c, buf)
	}
	mine := o.outgoing(c, buf)
	op, _ := o.op()
	switch o.Kind {
	case Alltoall:
		return banyan.Ialltoall(c, mine, buf)
	case Allgatherv:
		return banyan.Iallgatherv(c, mine, o.many(c, buf))
	case Gatherv:
		return banyan.Igatherv(c, mine, o.many(c, buf), o.Root)
	case Scatterv:
		return banyan.Iscatterv(c, o.many(c, mine), buf, o.Root)
	case ReduceScatter:
		return banyan.IreduceScatter(c, mine, buf, o.counts(c.Size(), 1), op)
	case ReduceScatterBlock:
		return banyan.IreduceScatterBlock(c, mine, buf, op)
	case Scan:
		return banyan.Iscan(c, mine, buf, op)
	case Exscan:
		return banyan.Iexscan(c, mine, buf, op)
	}
	return banyan.Ialltoallv(c, o.many(c, mine), o.many(c, buf))
}

func (o Collective) startExchangeBytes(c *banyan.Comm, buf []uint64) banyan.Request {
	mine := o.outgoing(c, buf)
	op, _ := o.op()
	b, out := banyan.Bytes(buf), banyan.Bytes(mine)
	switch o.Kind {
	case Alltoall:
		return c.Ialltoall(out, b)
	case Allgatherv:
		return c.Iallgatherv(out, bytesOf(o.many(c, buf)))
	case Gatherv:
		return c.Igatherv(out, bytesOf(o.many(c, buf)), o.Root)
	case Scatterv:
		return c.Iscatterv(bytesOf(o.many(c, mine)), b, o.Root)
	case ReduceScatter:
		return c.IreduceScatter(out, b, o.counts(c.Size(), 8), onBytes(op))
	case ReduceScatterBlock:
		return c.IreduceScatterBlock(out, b, onBytes(op))
	case Scan:
		return c.Iscan(out, b, onBytes(op))
	case Exscan:
		return c.Iexscan(out, b, onBytes(op))
	}
	return c.Ialltoallv(bytesOf(o.many(c, mine)), bytesOf(o.many(c, buf)))
}

// counts are the lengths of the ranks' parts, in units of which a word has several.
func (o Collective) counts(n, units int) (out []int) {
	for rank := range n {
		out = append(out, units*o.length(rank, 0))
	}
	return out
}

func bytesOf(words [][]uint64) (out [][]byte) {
	for _, w := range words {
		out = append(out, banyan.Bytes(w))
	}
	return out
}
