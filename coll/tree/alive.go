package tree

import (
	"fmt"
	"math/bits"
	"slices"
)

// Alive is the set of living ranks among 0 … n-1. It numbers them densely: conversions between a rank and
// its number take a logarithmic number of words, for any dead ranks. It is immutable.
type Alive struct {
	words []uint64 // a bit for each rank; nil: all live
	sums  []int32  // sums[i]: how many live before word 8*i
	n     int
	count int
}

// block is how many words have one sum: with it a cache line of bits is counted.
const block = 8

// All is the set of all ranks 0 … n-1. It takes no memory for them.
func All(n int) *Alive { return &Alive{n: n, count: n} }

// Except returns the set of all ranks 0 … n-1 except the dead ones, given in any order.
func Except(n int, dead ...int) *Alive {
	if len(dead) == 0 {
		return All(n)
	}
	words := All(n).Words()
	for _, rank := range dead {
		words[rank/64] &^= 1 << (rank % 64)
	}
	return FromWords(words, n)
}

// FromWords returns the set in which rank r lives if bit r%64 of word r/64 is set. It keeps the words,
// which the caller must not change any more. The number of words is n/64, rounded up.
func FromWords(words []uint64, n int) *Alive {
	if len(words) != (n+63)/64 {
		panic(fmt.Sprintf("tree: %d words for %d ranks, want %d", len(words), n, (n+63)/64))
	}
	if n%64 != 0 {
		words[len(words)-1] &= 1<<(n%64) - 1
	}
	a := &Alive{words: words, n: n, sums: make([]int32, 0, (len(words)+block-1)/block)}
	for i, w := range words {
		if i%block == 0 {
			a.sums = append(a.sums, int32(a.count))
		}
		a.count += bits.OnesCount64(w)
	}
	if a.count == n {
		return All(n)
	}
	return a
}

// Size is n, the number of ranks, dead or alive.
func (a *Alive) Size() int { return a.n }

// Count is how many live.
func (a *Alive) Count() int { return a.count }

// Has reports whether a rank of 0 … Size()-1 lives.
func (a *Alive) Has(rank int) bool {
	return a.words == nil || a.words[rank/64]>>(rank%64)&1 != 0
}

// Number gives the number among the living of a rank of 0 … Size()-1; -1: it does not live.
func (a *Alive) Number(rank int) int {
	if a.words == nil {
		return rank
	}
	at, bit := rank/64, uint64(1)<<(rank%64)
	if a.words[at]&bit == 0 {
		return -1
	}
	return a.below(at) + bits.OnesCount64(a.words[at]&(bit-1))
}

// below is how many live before a word.
func (a *Alive) below(at int) int {
	n := int(a.sums[at/block])
	for _, w := range a.words[at-at%block : at] {
		n += bits.OnesCount64(w)
	}
	return n
}

// from is how many live of the ranks below a rank of 0 … Size()-1, which may be dead.
func (a *Alive) from(rank int) int {
	if a.words == nil {
		return rank
	}
	return a.below(rank/64) + bits.OnesCount64(a.words[rank/64]&(1<<(rank%64)-1))
}

// Rank gives the rank with a number of 0 … Count()-1.
func (a *Alive) Rank(number int) int {
	if a.words == nil {
		return number
	}
	low, high := 0, len(a.sums) // sums[low] <= number, and that of high is greater
	for high-low > 1 {
		if mid := int(uint(low+high) / 2); int(a.sums[mid]) <= number {
			low = mid
		} else {
			high = mid
		}
	}
	left := number - int(a.sums[low])
	for at := low * block; ; at++ {
		n := bits.OnesCount64(a.words[at])
		if left < n {
			return at*64 + pick(a.words[at], left)
		}
		left -= n
	}
}

// pick gives the place of a word's set bit before which there are so many others.
func pick(w uint64, left int) int {
	at := 0
	for half := 32; half > 4; half /= 2 {
		if n := bits.OnesCount64(w & (1<<half - 1)); left >= n {
			left -= n
			at += half
			w >>= half
		}
	}
	for ; left > 0; left-- {
		w &= w - 1
	}
	return at + bits.TrailingZeros64(w)
}

// Runs is how many stretches of neighbours the living form.
func (a *Alive) Runs() int {
	if a.words == nil {
		return min(a.n, 1)
	}
	n, last := 0, uint64(0)
	for _, w := range a.words {
		n += bits.OnesCount64(w &^ (w<<1 | last))
		last = w >> 63
	}
	return n
}

// Words is the set as a bit for each rank, a copy of the caller's own.
func (a *Alive) Words() []uint64 {
	if a.words != nil {
		return slices.Clone(a.words)
	}
	words := make([]uint64, (a.n+63)/64)
	for i := range words {
		words[i] = ^uint64(0)
	}
	if a.n%64 != 0 {
		words[len(words)-1] = 1<<(a.n%64) - 1
	}
	return words
}
