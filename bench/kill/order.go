package kill

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
)

// Order is an order in which ranks die. In all of them rank 0 does not. The zero value is Worst.
type Order uint8

const (
	// Worst kills ranks 1, 2, 3, …: parents of large subtrees of the binomial tree first.
	Worst Order = iota
	// Average kills as many parents as leaves: 1, then the leaf that is its farthest child, 2, …; when there are no such pairs
	// left, the rest in ascending order. Half of 512 dead, that leaves the root of the rerouted tree 128 children.
	Average
	// Best kills the highest rank first: leaves, as long as any are left.
	Best
)

var names = []string{Worst: "worst", Average: "average", Best: "best"}

// Orders are all of them.
func Orders() []Order { return []Order{Worst, Average, Best} }

// String gives the word that Parse reads.
func (o Order) String() string {
	if int(o) < len(names) {
		return names[o]
	}
	return fmt.Sprintf("order %d", uint8(o))
}

// Parse reads "worst", "average" or "best".
func Parse(text string) (Order, error) {
	if i := slices.Index(names, text); i >= 0 {
		return Order(i), nil
	}
	return 0, fmt.Errorf("no kill order %q: want %s", text, strings.Join(names, ", "))
}

// MarshalText gives what UnmarshalText reads.
func (o Order) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText reads what Parse reads.
func (o *Order) UnmarshalText(text []byte) (err error) {
	*o, err = Parse(string(text))
	return err
}

// Check finds numbers of failures that no order has. Name is what the user calls it.
func Check(name string, ranks, failures int) error {
	if failures < 0 || failures >= ranks {
		return fmt.Errorf("%s %d of %d ranks: want 0 to %d", name, failures, ranks, ranks-1)
	}
	return nil
}

// Victims lists the first so many of the ranks in the order: for each failure more it has one more victim, and the same before. Preconditions: Check,
// and an order that there is.
func (o Order) Victims(ranks, failures int) []int {
	if err := Check("failures", ranks, failures); err != nil {
		panic("kill: " + err.Error())
	}
	dead := make([]int, 0, failures)
	switch o {
	case Worst:
		for rank := 1; len(dead) < failures; rank++ {
			dead = append(dead, rank)
		}
	case Average:
		dead = inPairs(dead, ranks, failures)
	case Best:
		for rank := ranks - 1; len(dead) < failures; rank-- {
			dead = append(dead, rank)
		}
	default:
		panic("kill: there is no " + o.String())
	}
	return dead
}

// inPairs puts each parent but the root, in ascending order, with its farthest leaf, and then all others. What lies above a
// parent by the largest power of two that it can is a leaf, and nobody else's farthest.
func inPairs(dead []int, ranks, failures int) []int {
	gone := make([]bool, ranks)
	kill := func(rank int) {
		if !gone[rank] && len(dead) < failures {
			gone[rank] = true
			dead = append(dead, rank)
		}
	}
	for rank := 1; rank < ranks; rank++ {
		if far := 1 << bits.Len(uint(ranks-1-rank)) / 2; far > rank { // else it has no children
			kill(rank)
			kill(rank + far)
		}
	}
	for rank := 1; rank < ranks; rank++ {
		kill(rank)
	}
	return dead
}
