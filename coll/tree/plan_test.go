package tree

import (
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
	want := expected(d, s, a, node, root)
	parents := make([]int, a.Size())
	for i := range parents {
		parents[i] = none
	}
	ranks := living(a)
	if d == Unaware {
		ranks = upTo(a.Size())
	}
	for _, me := range ranks {
		Build(p, d, s, a, node, root, me)
		if p.Root != want.root || !slices.Equal(p.Children, want.children[me]) {
			require.Failf(t, "another tree", "%v %v, living %v, root %d: rank %d has root %d and children %v, want %d, %v",
				d, s, ranks, root, me, p.Root, p.Children, want.root, want.children[me])
		}
		for _, child := range p.Children {
			if parents[child] != none {
				require.Failf(t, "two parents", "%v %v, living %v, root %d: rank %d is the child of %d and %d",
					d, s, ranks, root, child, parents[child], me)
			}
			parents[child] = me
		}
	}
	for _, me := range ranks {
		Build(p, d, s, a, node, root, me)
		if p.Parent != parents[me] || (p.Parent == none) != (me == p.Root) {
			require.Failf(t, "another parent", "%v %v, living %v, root %d: rank %d has parent %d and is the child of %d",
				d, s, ranks, root, me, p.Parent, parents[me])
		}
	}
	under := p.Subtree(nil, p.Root)
	require.Equal(t, want.under(want.root), under)
	require.ElementsMatch(t, ranks, under)
	for _, top := range p.Children {
		require.Equal(t, want.under(top), p.Subtree(nil, top))
	}
}

// Every subset of up to 8 ranks (with BANYAN_LONG of up to 12), every shape and design, every root, living or dead.
func TestEverySubset(t *testing.T) {
	for n := 1; n <= 8; n++ {
		for mask := uint64(1); mask < 1<<n; mask++ {
			a := FromWords([]uint64{mask}, n)
			for _, s := range everyShape {
				for _, d := range []Design{Unaware, Reroute, LookupAvoiding, Rebalance} {
					for root := range n {
						requireTree(t, new(Plan), d, s, a, nameless, root)
					}
				}
			}
		}
	}
}
