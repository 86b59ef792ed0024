package collective

import (
	"fmt"
	"math/bits"
)

// Kill is an order in which ranks die (Hursey and Graham §4). In all of them rank 0 is the last.
type Kill string

const (
	// Worst kills ranks 1, 2, 3, …: parents of large subtrees of the binomial tree first.
	Worst Kill = "worst"
	// Average kills as many parents as leaves: 1, then the leaf that is its farthest child, 2, …; when there are no such pairs
	// left, the rest in ascending order.
	Average Kill = "average"
	// Best kills the highest rank first: leaves, as long as any are left.
	Best Kill = "best"
)

// Victims lists the first so many of n ranks in the order. It panics for an order that is none.
func (k Kill) Victims(n, failures int) []int {
	out := make([]int, 0, n)
	switch k {
	case Worst:
		for rank := 1; rank < n; rank++ {
			out = append(out, rank)
		}
	case Average:
		out = pairs(out, n)
	case Best:
		for rank := n - 1; rank > 0; rank-- {
			out = append(out, rank)
		}
	default:
		panic(fmt.Sprintf("collective: kill order %q", string(k)))
	}
	return out[:failures]
}

// pairs puts each parent but the root, in ascending order, with its farthest leaf, and then all others.
func pairs(out []int, n int) []int {
	taken := make([]bool, n)
	for rank := 1; rank < n; rank++ {
		far := 1 << bits.Len(uint(n-1-rank)) / 2 // of all powers of two that stay below n the largest
		if far <= rank {
			continue // it has no children
		}
		leaf := rank + far
		out = append(out, rank, leaf)
		taken[rank], taken[leaf] = true, true
	}
	for rank := 1; rank < n; rank++ {
		if !taken[rank] {
			out = append(out, rank)
		}
	}
	return out
}
