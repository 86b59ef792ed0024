package rebalance

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
)

// Failures is how many ranks have failed: a number, or a share of all.
type Failures struct {
	n       int
	percent float64
	share   bool
}

// UnmarshalText reads 896 or 87.5%.
func (f *Failures) UnmarshalText(text []byte) (err error) {
	wrong := func() error {
		return fmt.Errorf("%q: want a number of ranks, as 896, or a share of less than all, as 87.5%%", text)
	}
	if percent, ok := strings.CutSuffix(string(text), "%"); ok {
		f.share = true
		if f.percent, err = strconv.ParseFloat(percent, 64); err != nil || !(f.percent >= 0 && f.percent < 100) {
			return wrong()
		}
		return nil
	}
	if f.n, err = strconv.Atoi(string(text)); err != nil || f.n < 0 {
		return wrong()
	}
	return nil
}

// MarshalText gives what UnmarshalText reads.
func (f Failures) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// String gives it as it was written.
func (f Failures) String() string {
	if f.share {
		return strconv.FormatFloat(f.percent, 'g', -1, 64) + "%"
	}
	return strconv.Itoa(f.n)
}

// Of is how many of so many ranks that is. One always lives.
func (f Failures) Of(ranks int) int {
	if f.share {
		return min(int(math.Round(f.percent/100*float64(ranks))), ranks-1)
	}
	return f.n
}

// Kill is the order in which ranks fail, as the paper has it (§4). Rank 0 always lives.
type Kill string

// The orders.
const (
	Worst   Kill = "worst"   // ranks 1, 2, 3 …: parents first
	Average Kill = "average" // half from the parents, 1, 2, 3 …, and of each the last leaf below it
	Best    Kill = "best"    // from the highest rank down: leaves first
)

// Of gives the ranks that have failed, in no particular order. Precondition: 0 <= failures < ranks.
func (k Kill) Of(ranks, failures int) []int {
	dead := make([]int, 0, failures)
	for i := range failures {
		switch k {
		case Worst:
			dead = append(dead, i+1)
		case Best:
			dead = append(dead, ranks-1-i)
		default:
			return average(ranks, failures)
		}
	}
	return dead
}

// average takes rank r and r + the highest bit, the leaf of the binomial tree below it, for r of 1, 2, 3 …. Where the number of ranks is no
// power of two some have no such leaf: then the highest ranks make up for it.
func average(ranks, failures int) []int {
	half := 1 << (bits.Len(uint(ranks-1)) - 1)
	gone := make([]bool, ranks)
	dead := make([]int, 0, failures)
	take := func(rank int) {
		if rank < ranks && len(dead) < failures && !gone[rank] {
			gone[rank] = true
			dead = append(dead, rank)
		}
	}
	for r := 1; r <= failures/2; r++ {
		take(r)
		take(r + half)
	}
	for r := ranks - 1; r > 0; r-- {
		take(r)
	}
	return dead
}
