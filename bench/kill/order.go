package kill

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
)

// Order is an order in which ranks die; rank 0 never does. The zero value is Worst.
type Order uint8

const (
	// Worst kills ranks 1, 2, 3, …: parents of large subtrees of the binomial tree first.
	Worst Order = iota
	// Average kills as many parents as leaves: 1, then the leaf that is its farthest child, 2, …; after
	// all such pairs, the rest in ascending order. With half of 512 ranks dead, the root of the rerouted
	// tree has 128 children.
	Average
	// Best kills the highest rank first: leaves, as long as there are any.
	Best
	// Random kills in an order drawn by chance, the same each time for a number of ranks.
	Random
)

var names = []string{Worst: "worst", Average: "average", Best: "best", Random: "random"}

// Orders are those of the paper.
func Orders() []Order { return []Order{Worst, Average, Best} }

// String returns the text that Parse parses.
func (o Order) String() string {
	if int(o) < len(names) {
		return names[o]
	}
	return fmt.Sprintf("order %d", uint8(o))
}

// Parse parses "worst", "average", "best" or "random".
func Parse(text string) (Order, error) {
	if i := slices.Index(names, text); i >= 0 {
		return Order(i), nil
	}
	return 0, fmt.Errorf("no kill order %q: want %s", text, strings.Join(names, ", "))
}

// MarshalText returns the text that UnmarshalText parses.
func (o Order) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText parses the same texts as Parse.
func (o *Order) UnmarshalText(text []byte) (err error) {
	*o, err = Parse(string(text))
	return err
}

// Check returns an error for a number of failures that no order has. Name is that of the flag.
func Check(name string, ranks, failures int) error {
	if failures < 0 || failures >= ranks {
		return fmt.Errorf("%s %d of %d ranks: want 0 to %d", name, failures, ranks, ranks-1)
	}
	return nil
}

// Victims lists the first ranks in the order: one more failure adds one more victim.
//
// Preconditions: Check succeeds, and there is the order.
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
	case Random:
		for _, rank := range rand.New(rand.NewPCG(uint64(ranks), 9)).Perm(ranks - 1)[:failures] {
			dead = append(dead, rank+1)
		}
	default:
		panic("kill: there is no " + o.String())
	}
	return dead
}

// inPairs lists each parent but the root, in ascending order, with its farthest leaf, and then all
// others. The rank above a parent by the largest possible power of two is a leaf, and the farthest of no
// other parent.
func inPairs(dead []int, ranks, failures int) []int {
	dying := make([]bool, ranks)
	kill := func(rank int) {
		if !dying[rank] && len(dead) < failures {
			dying[rank] = true
			dead = append(dead, rank)
		}
	}
	for rank := 1; rank < ranks; rank++ {
		if far := 1 << bits.Len(uint(ranks-1-rank)) / 2; far > rank { // otherwise it has no children
			kill(rank)
			kill(rank + far)
		}
	}
	for rank := 1; rank < ranks; rank++ {
		kill(rank)
	}
	return dead
}
