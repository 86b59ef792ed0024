package tree

import (
	"slices"
)

// naive is a tree as a list of children for each rank, made by the definitions and without any
// optimisation: plans are compared with it.
type naive struct {
	root     int
	children [][]int
}

// spell gives the children of each number of 0 … n-1 in the tree with the root 0, as the comments of the shapes have it.
func spell(s Shape, n int) [][]int {
	children := make([][]int, n)
	give := func(r, child int) {
		if child < n {
			children[r] = append(children[r], child)
		}
	}
	for r := range n {
		switch s.kind {
		case binomial, knomial:
			k := int(max(s.radix, 2))
			for power := 1; power < n; power *= k {
				for d := 1; power > r && d < k; d++ {
					give(r, r+d*power)
				}
			}
		case binary:
			give(r, 2*r+1)
			give(r, 2*r+2)
		case chain:
			give(r, r+1)
		case flat:
			for child := 1; r == 0 && child < n; child++ {
				give(r, child)
			}
		}
	}
	return children
}

// naiveOver is the tree over ranks in their order, all of them living, with one of them as the root.
func naiveOver(s Shape, size int, ranks []int, node func(int) int, root int) naive {
	t := naive{root, make([][]int, size)}
	turn := slices.Index(ranks, root)
	rotated := append(slices.Clone(ranks[turn:]), ranks[:turn]...)
	if s != TwoLevel {
		t.join(s, rotated)
		return t
	}
	var names []int
	members := map[int][]int{}
	for _, rank := range ranks {
		k := node(rank)
		if members[k] == nil {
			names = append(names, k)
		}
		members[k] = append(members[k], rank)
	}
	home := members[node(root)]
	turn = slices.Index(home, root)
	members[node(root)] = append(slices.Clone(home[turn:]), home[:turn]...)
	first := slices.Index(names, node(root))
	var leaders []int
	for i := range names {
		leaders = append(leaders, members[names[(first+i)%len(names)]][0])
	}
	t.join(Binomial, leaders)
	for _, name := range names {
		t.join(Binomial, members[name])
	}
	return t
}

// join gives ranks the edges that their places in the list have.
func (t *naive) join(s Shape, ranks []int) {
	for at, children := range spell(s, len(ranks)) {
		for _, child := range children {
			t.children[ranks[at]] = append(t.children[ranks[at]], ranks[child])
		}
	}
}

// reroute removes the dead ranks, as S2-15 specifies.
func (t naive) reroute(a *Alive) naive {
	out := naive{t.root, make([][]int, len(t.children))}
	for level := []int{t.root}; !a.Has(out.root); {
		for _, rank := range level {
			if a.Has(rank) && (!a.Has(out.root) || t.behind(rank) < t.behind(out.root)) {
				out.root = rank
			}
		}
		var next []int
		for _, rank := range level {
			next = append(next, t.children[rank]...)
		}
		level = next
	}
	for rank := range t.children {
		switch {
		case rank == out.root:
			out.children[rank] = t.adopt(a, t.root, rank)
		case a.Has(rank):
			out.children[rank] = t.adopt(a, rank, rank)
		}
	}
	return out
}

// behind is how far a rank is from the root, counted around.
func (t naive) behind(rank int) int { return (rank - t.root + len(t.children)) % len(t.children) }

// adopt lists the nearest living ranks below top, except me, the rank that lists them.
func (t naive) adopt(a *Alive, top, me int) []int {
	var out []int
	for _, child := range t.children[top] {
		if a.Has(child) && child != me {
			out = append(out, child)
		} else {
			out = append(out, t.adopt(a, child, me)...)
		}
	}
	return out
}

// under lists the subtree of a rank, parents first.
func (t naive) under(rank int) []int {
	out := []int{rank}
	for _, child := range t.children[rank] {
		out = append(out, t.under(child)...)
	}
	return out
}

// living lists a set.
func living(a *Alive) []int {
	var out []int
	for rank := range a.Size() {
		if a.Has(rank) {
			out = append(out, rank)
		}
	}
	return out
}

// upTo lists 0 … n-1.
func upTo(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}
