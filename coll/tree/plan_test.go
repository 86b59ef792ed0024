package tree

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

var everyShape = []Shape{Binomial, KNomial(2), KNomial(3), KNomial(4), KNomial(7), Binary, Chain, Flat, TwoLevel}

// nameless is a placement of which neighbours do not share a node, nor all nodes have names.
func nameless(rank int) int { return (rank*7%5 + 3) % 5 * 2 }

func blocks(rank int) int { return rank / 4 }

// expected is the tree that a design has, by the definitions.
func expected(d Design, s Shape, a *Alive, node func(int) int, root int) naive {
	switch {
	case d == Unaware:
		return naiveOver(s, a.Size(), upTo(a.Size()), node, root)
	case d == Rebalance:
		for !a.Has(root) {
			root = (root + 1) % a.Size()
		}
		return naiveOver(s, a.Size(), living(a), node, root)
	default:
		return naiveOver(s, a.Size(), upTo(a.Size()), node, root).reroute(a)
	}
}

// requireTree compares the plans of all living ranks with the tree by the definitions, and looks that they are a tree over the
// living: each but the root is the child of exactly its parent.
func requireTree(t *testing.T, p *Plan, d Design, s Shape, a *Alive, node func(int) int, root int) {
	t.Helper()
	requireSame(t, p, expected(d, s, a, node, root), d, s, a, node, root)
}

func requireSame(t *testing.T, p *Plan, want naive, d Design, s Shape, a *Alive, node func(int) int, root int) {
	t.Helper()
	said, owned := make([]int, a.Size()), make([]int, a.Size()) // the parent of each rank, by itself and by its parent
	ranks := living(a)
	if d == Unaware {
		ranks = upTo(a.Size())
	}
	wrong := func(what string, me int) {
		require.Failf(t, what, "%v %v, living %v, root %d: rank %d has root %d, parent %d, children %v; want root %d, children %v",
			d, s, ranks, root, me, p.Root, p.Parent, p.Children, want.root, want.children[me])
	}
	for i := range owned {
		owned[i] = none
	}
	for _, me := range ranks {
		Build(p, d, s, a, node, root, me)
		if p.Root != want.root || !slices.Equal(p.Children, want.children[me]) {
			wrong("another tree", me)
		}
		said[me] = p.Parent
		for _, child := range p.Children {
			if owned[child] != none {
				wrong("a child of two", me)
			}
			owned[child] = me
		}
		if !slices.Equal(want.under(me), p.Subtree(nil, me)) {
			wrong("another subtree", me)
		}
	}
	for _, me := range ranks {
		if said[me] != owned[me] || (said[me] == none) != (me == want.root) {
			wrong("another parent", me)
		}
	}
	require.True(t, slices.Equal(ranks, slices.Sorted(slices.Values(p.Subtree(nil, want.root)))))
}

// Every subset of up to 12 ranks, for every shape and design. Up to 7 ranks and with BANYAN_LONG each rank is the root once, living or
// dead; else rank 0 and one other.
func TestEverySubset(t *testing.T) {
	p := new(Plan)
	long := os.Getenv("BANYAN_LONG") != ""
	for n := 1; n <= 12; n++ {
		for mask := uint64(1); mask < 1<<n; mask++ {
			a := FromWords([]uint64{mask}, n)
			roots := upTo(n)
			if n > 7 && !long {
				roots = []int{0, 1 + int(mask)%(n-1)}
			}
			for _, s := range everyShape {
				for _, root := range roots {
					rerouted := expected(Reroute, s, a, nameless, root)
					requireSame(t, p, rerouted, Reroute, s, a, nameless, root)
					requireSame(t, p, rerouted, LookupAvoiding, s, a, nameless, root)
					requireTree(t, p, Rebalance, s, a, nameless, root)
				}
			}
		}
	}
}

// Unaware plans contain dead ranks, and do not consider the set of living ones.
func TestUnaware(t *testing.T) {
	for n := 1; n <= 40; n++ {
		for _, s := range everyShape {
			for root := range n {
				requireTree(t, new(Plan), Unaware, s, All(n), blocks, root)
				requireTree(t, new(Plan), Unaware, s, Except(n, n-1, n/2), nameless, root)
			}
		}
	}
}

// Trees of some hundred ranks, of which few or most have failed.
func TestRandomTrees(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 1))
	p := new(Plan)
	for round := range 60 {
		n := 13 + rng.IntN(500)
		a := random(rng, n, float64(round%10)/10)
		s := everyShape[rng.IntN(len(everyShape))]
		root := rng.IntN(n)
		for _, d := range []Design{Reroute, Rebalance} {
			requireTree(t, p, d, s, a, blocks, root)
		}
	}
}

// random has each rank failed with a probability, but not all.
func random(rng *rand.Rand, n int, failed float64) *Alive {
	words := All(n).Words()
	for rank := range n {
		if rng.Float64() < failed {
			words[rank/64] &^= 1 << (rank % 64)
		}
	}
	words[(n-1)/64] |= 1 << ((n - 1) % 64)
	return FromWords(words, n)
}

// Up to a million ranks: every rank is the child of its parent and the parent of its children, its path ends at the
// root, and its edges are those of the tree over the number of living ranks, in numbers.
func TestLargeTrees(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 2))
	var mine, theirs, dense Plan
	for _, n := range []int{1000, 65536, 99_999, 1_000_000} {
		for _, failed := range []float64{0, 0.02, 0.5, 0.98} {
			a := random(rng, n, failed)
			fewer := All(a.Count())
			for _, s := range []Shape{Binomial, KNomial(4), Binary} {
				for _, d := range []Design{Reroute, Rebalance} {
					for range 40 {
						root, me := a.Rank(rng.IntN(a.Count())), a.Rank(rng.IntN(a.Count()))
						Build(&mine, d, s, a, nil, root, me)
						for _, child := range mine.Children {
							Build(&theirs, d, s, a, nil, root, child)
							require.Equal(t, me, theirs.Parent)
						}
						steps := 0
						for at := me; at != root; steps++ {
							Build(&theirs, d, s, a, nil, root, at)
							at = theirs.Parent
						}
						require.LessOrEqual(t, steps, 20)
						if d != Rebalance {
							continue
						}
						Build(&dense, Unaware, s, fewer, nil, a.Number(root), a.Number(me))
						require.Equal(t, len(dense.Children), len(mine.Children))
						for i, child := range mine.Children {
							require.Equal(t, dense.Children[i], a.Number(child))
						}
					}
				}
			}
		}
	}
}

// Rebalanced, every tree is the one of as many ranks fewer, relabelled (S2-17): also where nodes count.
func TestRebalancedIsDense(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 3))
	var mine, dense Plan
	for range 40 {
		a := random(rng, 1+rng.IntN(200), rng.Float64())
		fewer := All(a.Count())
		node := func(number int) int { return blocks(a.Rank(number)) }
		root := rng.IntN(a.Count())
		for _, s := range everyShape {
			for me := range a.Count() {
				Build(&mine, Rebalance, s, a, blocks, a.Rank(root), a.Rank(me))
				Build(&dense, Unaware, s, fewer, node, root, me)
				for i, child := range dense.Children {
					dense.Children[i] = a.Rank(child)
				}
				require.True(t, slices.Equal(dense.Children, mine.Children))
				if dense.Parent != none {
					dense.Parent = a.Rank(dense.Parent)
				}
				require.Equal(t, dense.Parent, mine.Parent)
				require.Equal(t, a.Rank(dense.Root), mine.Root)
			}
		}
	}
}

// A node's leader is its lowest living rank, and each of the others has its parent on its own node: to each node but the root's goes one
// message.
func TestLeaders(t *testing.T) {
	a := Except(20, 0, 1, 4, 8, 9, 10, 11, 12, 14)
	var p Plan
	var from [][2]int
	for rank := range 20 {
		if a.Has(rank) {
			Build(&p, Rebalance, TwoLevel, a, blocks, 0, rank)
			require.Equal(t, 2, p.Root)
			if p.Parent != none && blocks(p.Parent) != blocks(rank) {
				from = append(from, [2]int{p.Parent, rank})
			}
		}
	}
	require.Equal(t, [][2]int{{2, 5}, {2, 13}, {5, 16}}, from)
	Build(&p, Rebalance, TwoLevel, a, blocks, 15, 15)
	require.Equal(t, []int{16, 2, 13}, p.Children, "the root leads its node, and serves others first")
}

// A plan keeps the memory that it needs: building it again allocates nothing.
func TestNoAllocation(t *testing.T) {
	a := worst(1024, 896)
	for _, s := range everyShape {
		for _, d := range []Design{Unaware, Reroute, LookupAvoiding, Rebalance} {
			var p Plan
			Build(&p, d, s, a, blocks, 1023, 1023)
			require.Zero(t, testing.AllocsPerRun(20, func() { Build(&p, d, s, a, blocks, 1023, 1023) }), "%v %v", d, s)
			Build(&p, d, s, a, blocks, 0, 0)
			require.Zero(t, testing.AllocsPerRun(20, func() { Build(&p, d, s, a, blocks, 0, 0) }), "%v %v", d, s)
		}
	}
}

// A plan for a dead rank is a mistake of the caller, and panics.
func TestDeadRank(t *testing.T) {
	for _, d := range []Design{Reroute, LookupAvoiding, Rebalance} {
		require.PanicsWithValue(t, "tree: plan for rank 3, which does not live", func() {
			Build(new(Plan), d, Binomial, Except(5, 3), nil, 0, 3)
		})
	}
}

// All plans of a tree, one rank after the other: the result is the mean over the ranks.
func BenchmarkBuild(b *testing.B) {
	for _, dead := range []int{0, 896} {
		a := worst(1024, dead)
		ranks := living(a)
		for _, d := range []Design{Reroute, LookupAvoiding, Rebalance} {
			b.Run(fmt.Sprintf("%v/%d", d, dead), func(b *testing.B) {
				b.ReportAllocs()
				var p Plan
				for i := 0; b.Loop(); i++ {
					Build(&p, d, Binomial, a, nil, 0, ranks[i%len(ranks)])
				}
			})
		}
	}
}
