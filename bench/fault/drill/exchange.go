package drill

import (
	"slices"

	"github.com/banyan-hpc/banyan"
)

// The collectives in which ranks exchange blocks over no tree, and scans. The block of rank a for rank b is
// the series of 1+a*n+b, and where lengths may differ has up to two places more than the shortest.

// exchanging fills in this rank's part in one of them.
func (r *rank) exchanging(u *part, elements int, top bool) {
	n, me := r.p.n, r.me
	length := func(a, b int) int {
		if u.kind == alltoall {
			return elements
		}
		return elements + (a+b)%3
	}
	block := func(a, b, length int) []int64 { return series(1+a*n+b, 1, length) }
	switch u.kind {
	case alltoall, alltoallv:
		for rank := range n {
			u.from = append(u.from, block(me, rank, length(me, rank)))
			u.add(block(rank, me, length(rank, me)))
		}
		u.mine = slices.Concat(u.from...)
		u.places()
	case allgatherv, gatherv:
		u.mine = block(me, 0, length(me, 0))
		for rank := 0; rank < n && (top || u.kind == allgatherv); rank++ {
			u.add(block(rank, 0, length(rank, 0)))
		}
		u.places()
	case scatterv:
		u.want = block(0, me, length(0, me))
		for rank := 0; rank < n && top; rank++ {
			u.from = append(u.from, block(0, rank, length(0, rank)))
		}
		u.got = unwritten(len(u.want))
	case reduceScatter:
		u.mine = nil
		for rank := range n {
			u.counts = append(u.counts, length(rank, 0))
			u.mine = append(u.mine, block(me, rank, length(rank, 0))...)
		}
		u.want = series(n*n*(n-1)/2+n*(1+me), n, u.counts[me])
		u.got = unwritten(len(u.want))
	case scan, exscan:
		ranks := me
		if u.kind == scan || me == 0 { // exscan leaves the lowest rank its own
			ranks++
		}
		u.got, u.want = u.mine, series(ranks*(ranks+1)/2, ranks, elements)
	}
}

// add has the part get one more block.
func (u *part) add(want []int64) {
	u.to = append(u.to, want)
	u.want = append(u.want, want...)
}

// places has the places for blocks lie in got.
func (u *part) places() {
	u.got = unwritten(len(u.want))
	at := 0
	for i, block := range u.to {
		u.to[i] = u.got[at : at+len(block)]
		at += len(block)
	}
}

// exchange performs it.
func (u *part) exchange(c *banyan.Comm) error {
	switch u.kind {
	case alltoall:
		return banyan.Alltoall(c, u.mine, u.got)
	case allgatherv:
		return banyan.Allgatherv(c, u.mine, u.to)
	case gatherv:
		return banyan.Gatherv(c, u.mine, u.to, u.root)
	case scatterv:
		return banyan.Scatterv(c, u.from, u.got, u.root)
	case alltoallv:
		return banyan.Alltoallv(c, u.from, u.to)
	case reduceScatter:
		return banyan.ReduceScatter(c, u.mine, u.got, u.counts, banyan.Sum)
	case scan:
		return banyan.Scan(c, u.mine, u.got, banyan.Sum)
	}
	return banyan.Exscan(c, u.mine, u.got, banyan.Sum)
}

// startExchange starts it.
func (u *part) startExchange(c *banyan.Comm) banyan.Request {
	switch u.kind {
	case alltoall:
		return banyan.Ialltoall(c, u.mine, u.got)
	case allgatherv:
		return banyan.Iallgatherv(c, u.mine, u.to)
	case gatherv:
		return banyan.Igatherv(c, u.mine, u.to, u.root)
	case scatterv:
		return banyan.Iscatterv(c, u.from, u.got, u.root)
	case alltoallv:
		return banyan.Ialltoallv(c, u.from, u.to)
	case reduceScatter:
		return banyan.IreduceScatter(c, u.mine, u.got, u.counts, banyan.Sum)
	case scan:
		return banyan.Iscan(c, u.mine, u.got, banyan.Sum)
	}
	return banyan.Iexscan(c, u.mine, u.got, banyan.Sum)
}
