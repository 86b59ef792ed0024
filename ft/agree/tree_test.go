package agree

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/internal/proc"
)

// plainTree computes a tree by its definition.
type plainTree struct {
	digit       uint
	base, ended ranks
	nodes       [][]int // their ranks that are not in base, by the lowest of each
}

// plain puts the ranks on their nodes.
func plain(tr *tree, node []int) *plainTree {
	out := &plainTree{digit: tr.digit, base: tr.agreed, ended: tr.known}
	for rank := range tr.size {
		at := slices.IndexFunc(out.nodes, func(on []int) bool { return node[on[0]] == node[rank] })
		switch {
		case tr.agreed.has(rank):
		case at < 0:
			out.nodes = append(out.nodes, []int{rank})
		default:
			out.nodes[at] = append(out.nodes[at], rank)
		}
	}
	return out
}

// without is a number without its highest digit.
func (o *plainTree) without(p int) int {
	power := 1
	for power<<o.digit <= p {
		power <<= o.digit
	}
	return p % power
}

// up is the rank above another one, whether it lives or not; -1: none.
func (o *plainTree) up(rank int) int {
	for node, on := range o.nodes {
		switch p := slices.Index(on, rank); {
		case p > 0:
			return on[o.without(p)]
		case p == 0 && node > 0:
			return o.nodes[o.without(node)][0]
		}
	}
	return -1
}

// parent is the parent of a living rank; -1 for the root.
func (o *plainTree) parent(rank int) int {
	for up := o.up(rank); up >= 0; up = o.up(up) {
		if !o.ended.has(up) {
			return up
		}
	}
	for _, r := range slices.Concat(o.nodes...) {
		if r == rank {
			return -1
		}
		if !o.ended.has(r) {
			return r
		}
	}
	panic("no member lives")
}

// checkTree: a tree equals the plain one, and a member's children are the members whose parent it is.
func checkTree(t *testing.T, tr *tree, o *plainTree) {
	t.Helper()
	children := make(map[int][]int)
	for r := range tr.size {
		if !tr.known.has(r) {
			require.Equal(t, r, tr.rank(tr.position(r)))
			parent := o.parent(r)
			require.Equal(t, parent, tr.parent(r), "rank %d of %d, nodes %v, ended %v", r, tr.size, o.nodes, o.ended)
			children[parent] = append(children[parent], r)
		}
	}
	for r := range tr.size {
		if !tr.known.has(r) {
			got := tr.children(nil, r)
			slices.Sort(got)
			require.Equal(t, children[r], slices.Clip(got), "rank %d of %d, nodes %v, ended %v", r, tr.size, o.nodes, o.ended)
		}
	}
}

// Trees of one node and of several, and those of several whose members are all on their own.
func TestTree(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 6000 {
		tr := tree{digit: uint(1 + rng.IntN(6)), size: 1 + rng.IntN(70)}
		for r := range tr.size {
			switch k := rng.IntN(6); {
			case k == 0:
				tr.agreed.add(r)
				tr.known.add(r)
			case k == 1:
				tr.known.add(r)
			}
		}
		if len(tr.known) == tr.size {
			continue
		}
		node := make([]int, tr.size)
		if round%2 > 0 {
			for most, r := 1+rng.IntN(tr.size), 0; r < tr.size; r++ {
				node[r] = rng.IntN(most)
			}
		}
		tr.places = placesOf(members(tr.size), tr.agreed, func(p proc.ID) int { return node[members(tr.size).Rank(p)] })
		checkTree(t, &tr, plain(&tr, node))
	}
}

// One frame for each node beyond the first crosses in either direction, in any order of events.
func TestCrossings(t *testing.T) {
	for _, wide := range []uint{0, Shallow.Digit - 1} {
		j := job{n: 16, rounds: 3, wide: wide, nodes: 0x_aa_55_00_ff} // four ranks on each
		w := newWorld(j)
		onNodes := map[int]bool{}
		for r := range j.n {
			onNodes[j.node(members(j.n).Proc(r))] = true
		}
		rng := rand.New(rand.NewPCG(7, uint64(wide)))
		for steps := w.steps(nil); len(steps) > 0; steps = w.steps(steps) {
			w.do(steps[rng.IntN(len(steps))])
		}
		require.NoError(t, w.wrong(true))
		require.Equal(t, 3*2*(len(onNodes)-1), w.crossed)
	}
}

// A leader's failure costs its node the crossings of its members until it is agreed on. The next agreement has
// another leader.
func TestLeaderFails(t *testing.T) {
	j := job{n: 8, rounds: 3, crashes: 1, nodes: 0x_55_00} // 0 to 3 and 4 to 7
	w := newWorld(j)
	run := func(round int) {
		for rank, p := range w.procs {
			if p.alive {
				require.Less(t, p.part[0].proposed, round)
				w.do(step{'p', rank, 0, -1})
			}
		}
		for steps := deliveries(w); len(steps) > 0; steps = deliveries(w) {
			w.do(steps[0])
		}
	}
	run(1)
	require.Equal(t, 2, w.crossed)
	w.do(step{'c', 4, 0, 0})
	for rank, p := range w.procs {
		if p.alive {
			w.do(step{'l', rank, 4, -1})
		}
	}
	w.crossed = 0
	run(2)
	require.Equal(t, 4, w.crossed)
	w.crossed = 0
	run(3)
	require.Equal(t, 2, w.crossed)
	require.NoError(t, w.wrong(true))
}

// deliveries are the steps that deliver frames.
func deliveries(w *world) []step {
	return slices.DeleteFunc(w.steps(nil), func(s step) bool { return s.what != 'd' })
}

// Members that are all on one node, or each on its own, need no places.
func TestPlaces(t *testing.T) {
	alone := func(p proc.ID) int { return int(p) }
	together := func(proc.ID) int { return 3 }
	require.Nil(t, placesOf(members(5), nil, alone))
	require.Nil(t, placesOf(members(5), nil, together))
	pairs := func(p proc.ID) int { return members(5).Rank(p) % 3 } // 0 3, 1 4, 2
	s := placesOf(members(5), nil, pairs)
	require.Equal(t, []int32{0, 3, 1, 4, 2}, s.rank)
	require.Equal(t, []int{0, 2, 4, 5}, s.first)
	s = placesOf(members(5), ranks{0, 4}, pairs)
	require.Nil(t, s, "each on its own")
	s = placesOf(members(5), ranks{0, 2}, pairs)
	require.Equal(t, []int32{1, 4, 3}, s.rank)
}
