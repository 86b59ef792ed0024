package predict

import (
	"fmt"
	"slices"
)

// Order says which ranks are dead.
type Order int

// The orders of Hursey and Graham §4. In all of them rank 0 dies last.
const (
	// Worst kills ranks 1, 2, 3, …: those with the most children first.
	Worst Order = iota
	// Average kills parents and leaves evenly: ranks 1, 2, 3, … and after each the leaf that hung from it, if it has one at
	// the far end of the ranks. Half of 512 dead, that leaves the root 128 children.
	Average
	// Best kills from the highest rank down: those without children first.
	Best
)

var orders = []string{Worst: "worst", Average: "average", Best: "best"}

// String gives the word that ParseOrder reads.
func (o Order) String() string {
	if o >= 0 && int(o) < len(orders) {
		return orders[o]
	}
	return fmt.Sprintf("order %d", int(o))
}

// ParseOrder reads "worst", "average" or "best".
func ParseOrder(s string) (Order, error) {
	if i := slices.Index(orders, s); i >= 0 {
		return Order(i), nil
	}
	return 0, fmt.Errorf("no kill order %q: want worst, average or best", s)
}

// Victims gives the ranks that an order kills first.
func Victims(o Order, ranks, failures int) ([]int, error) {
	if failures < 0 || failures >= ranks {
		return nil, fmt.Errorf("%d failures of %d ranks: want 0 to %d", failures, ranks, ranks-1)
	}
	dead := make([]int, 0, failures)
	switch o {
	case Worst:
		for rank := 1; len(dead) < failures; rank++ {
			dead = append(dead, rank)
		}
	case Average:
		dead = inPairs(dead, ranks, failures)
	default:
		for rank := ranks - 1; len(dead) < failures; rank-- {
			dead = append(dead, rank)
		}
	}
	return dead, nil
}

// inPairs kills rank 1 and its last leaf, then 2 and its, and so on. The leaves of the binomial tree are the
// ranks from half on: half, the largest power of two below ranks, is what a leaf is further on than its parent.
func inPairs(dead []int, ranks, failures int) []int {
	half := 1
	for 2*half < ranks {
		half *= 2
	}
	gone := make([]bool, ranks)
	kill := func(rank int) {
		if rank < ranks && !gone[rank] && len(dead) < failures {
			gone[rank] = true
			dead = append(dead, rank)
		}
	}
	for rank := 1; rank < ranks && len(dead) < failures; rank++ {
		kill(rank)
		kill(rank + half)
	}
	return dead
}
