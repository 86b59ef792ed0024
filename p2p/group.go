package p2p

import (
	"slices"
	"sort"
	"sync/atomic"

	"github.com/banyan-hpc/banyan/coll/tree"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// Group maps ranks to process ids. It is stored as runs of equal stride, because groups are mostly
// cut from others by range and stride: a world is one run, for any size. The zero Group is
// empty. A Group is immutable.
type Group struct {
	size int
	// dense: rank r is process base+r, as in a world.
	dense bool
	base  proc.ID
	runs  []run
	// ranks is the inverse map of a group of too many runs.
	ranks map[proc.ID]int32
	// kept marks the members among the ranks of from, for a group of too many runs; else nil.
	kept *tree.Alive
	from *Group
}

// run: rank first+i is process start+i*stride, for 0 <= i < n.
type run struct {
	first, n      int
	start, stride int64
}

// fewRuns are searched faster one by one than a map.
const fewRuns = 12

// lastWorld is the last result of WorldGroup. Thousands of simulated ranks share it.
var lastWorld atomic.Pointer[Group]

// WorldGroup is the group of the processes 0 … n-1.
func WorldGroup(n int) Group {
	if last := lastWorld.Load(); last != nil && last.size == n {
		return *last
	}
	g := &Group{size: n, dense: true, runs: []run{{n: n, stride: 1}}}
	lastWorld.Store(g)
	return *g
}

// inMemory is the group in memory that does not change: that of the last world, or its own.
func (g Group) inMemory() *Group {
	if last := lastWorld.Load(); last != nil && g.dense && g.base == last.base && g.size == last.size {
		return last
	}
	return &g
}

// NewGroup is the group of the given processes in their order. They must differ.
func NewGroup(procs []proc.ID) Group {
	g := Group{size: len(procs)}
	for i := 0; i < len(procs); {
		r := run{first: i, start: int64(procs[i]), stride: 1, n: 1}
		if i+1 < len(procs) {
			r.stride = int64(procs[i+1]) - r.start
		}
		for i+r.n < len(procs) && int64(procs[i+r.n]) == r.start+int64(r.n)*r.stride {
			r.n++
		}
		i += r.n
		g.runs = append(g.runs, r)
	}
	if len(g.runs) == 1 && g.runs[0].stride == 1 {
		g.dense, g.base = true, procs[0]
	}
	if len(g.runs) > fewRuns {
		g.ranks = make(map[proc.ID]int32, len(procs))
		for i, p := range procs {
			g.ranks[p] = int32(i)
		}
	}
	return g
}

// Size is the number of members.
func (g Group) Size() int { return g.size }

// Proc returns the process with a rank of 0 … Size()-1.
func (g Group) Proc(rank int) proc.ID { return g.proc(rank) }

// proc is Proc without a copy of the group on the stack.
func (g *Group) proc(rank int) proc.ID {
	if g.kept != nil {
		return g.from.proc(g.kept.Rank(rank))
	}
	r := &g.runs[0]
	if len(g.runs) > 1 {
		r = &g.runs[sort.Search(len(g.runs), func(i int) bool { return g.runs[i].first > rank })-1]
	}
	return proc.ID(r.start + int64(rank-r.first)*r.stride)
}

// Rank returns the rank of a process, or -1. Every receive calls it.
func (g *Group) Rank(p proc.ID) int {
	if g.dense && int64(p-g.base) < int64(g.size) {
		return int(p - g.base) // ids below the base wrap around
	}
	return g.search(p)
}

func (g *Group) search(p proc.ID) int {
	if g.kept != nil {
		if rank := g.from.Rank(p); rank >= 0 {
			return g.kept.Number(rank)
		}
		return -1
	}
	if g.ranks != nil {
		if rank, ok := g.ranks[p]; ok {
			return int(rank)
		}
		return -1
	}
	for i := range g.runs {
		r := &g.runs[i]
		d := int64(p) - r.start
		if at := d / r.stride; d%r.stride == 0 && at >= 0 && at < int64(r.n) {
			return r.first + int(at)
		}
	}
	return -1
}

// Procs lists the members by rank.
func (g Group) Procs() []proc.ID {
	out := make([]proc.ID, 0, g.size)
	for rank := range g.size {
		out = append(out, g.Proc(rank))
	}
	return out
}

// Equal reports whether the members and their order are the same.
func (g Group) Equal(o Group) bool {
	return g.size == o.size &&
		(g.kept == nil && o.kept == nil && slices.Equal(g.runs, o.runs) || slices.Equal(g.Procs(), o.Procs()))
}

// lastDense is the digest that was computed last of a dense group. Thousands of simulated ranks ask for
// that of their world.
var lastDense atomic.Pointer[denseDigest]

type denseDigest struct {
	base   proc.ID
	size   int
	digest uint64
}

// digest is a hash of the members and their order.
func (g Group) digest() uint64 {
	if !g.dense {
		return g.computeDigest()
	}
	last := lastDense.Load()
	if last == nil || last.base != g.base || last.size != g.size {
		last = &denseDigest{g.base, g.size, g.computeDigest()}
		lastDense.Store(last)
	}
	return last.digest
}

func (g Group) computeDigest() uint64 {
	h := uint64(g.size)
	for rank := range g.size {
		h = mix(h, uint64(g.Proc(rank)))
	}
	return h
}

// Digest is a hash of the members and their order.
func (g Group) Digest() uint32 {
	h := g.digest()
	return uint32(h ^ h>>32)
}

// Has reports whether a process is a member.
func (g Group) Has(p proc.ID) bool { return g.Rank(p) >= 0 }

// without is the group of the members that are not in ended, in their order. If these are scattered
// it takes one bit for each rank of the group that it was first cut from.
func (g Group) without(ended []proc.ID) Group {
	whole, words := &g, []uint64(nil)
	if g.kept != nil {
		whole, words = g.from, g.kept.Words()
	}
	for _, p := range ended {
		rank := whole.Rank(p)
		if rank < 0 {
			continue
		}
		if words == nil {
			words = tree.All(whole.size).Words()
		}
		words[rank/64] &^= 1 << (rank % 64)
	}
	if words == nil {
		return g
	}
	kept := tree.FromWords(words, whole.size)
	if kept.Count() == g.size {
		return g
	}
	left := Group{size: kept.Count(), kept: kept, from: whole}
	if kept.Runs() <= fewRuns {
		return NewGroup(left.Procs())
	}
	return left
}

// remaining is without for a group in memory: the group itself if no member is in ended.
func (g *Group) remaining(ended []proc.ID) *Group {
	if len(ended) == 0 {
		return g
	}
	left := g.without(ended)
	if left.size == g.size {
		return g
	}
	return &left
}

// mix adds a word to a hash.
func mix(h, word uint64) uint64 {
	h = (h ^ word) * 0x9e3779b97f4a7c15
	return h ^ h>>29
}
