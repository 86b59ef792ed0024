package p2p

import "math/bits"

// sieve says which ranks of a group are left, and counts them: a bit for each rank, and
// a sum for every eight words, so that both ways between a rank and its number among
// those that are left take some words and no search by rank. It does not change.
type sieve struct {
	words []uint64
	sums  []int32 // sums[i]: how many are left before word 8*i
	n     int     // how many are left
}

// sieveBlock is how many words have one sum.
const sieveBlock = 8

// fullWords are those of a sieve that keeps n ranks.
func fullWords(n int) []uint64 {
	words := make([]uint64, (n+63)/64)
	for i := range words {
		words[i] = ^uint64(0)
	}
	if n%64 != 0 {
		words[len(words)-1] = 1<<(n%64) - 1
	}
	return words
}

func newSieve(words []uint64) *sieve {
	s := &sieve{words: words, sums: make([]int32, 0, (len(words)+sieveBlock-1)/sieveBlock)}
	for i, w := range words {
		if i%sieveBlock == 0 {
			s.sums = append(s.sums, int32(s.n))
		}
		s.n += bits.OnesCount64(w)
	}
	return s
}

// number gives a rank's number among those that are left; -1: it is not.
func (s *sieve) number(rank int) int {
	at, bit := rank/64, uint64(1)<<(rank%64)
	if s.words[at]&bit == 0 {
		return -1
	}
	n := int(s.sums[at/sieveBlock])
	for _, w := range s.words[at-at%sieveBlock : at] {
		n += bits.OnesCount64(w)
	}
	return n + bits.OnesCount64(s.words[at]&(bit-1))
}

// rank gives the rank with a number of 0 … n-1.
func (s *sieve) rank(number int) int {
	low, high := 0, len(s.sums) // sums[low] <= number, and that of high is greater
	for high-low > 1 {
		if mid := (low + high) / 2; int(s.sums[mid]) <= number {
			low = mid
		} else {
			high = mid
		}
	}
	left := number - int(s.sums[low])
	for at := low * sieveBlock; ; at++ {
		w := s.words[at]
		if n := bits.OnesCount64(w); left >= n {
			left -= n
			continue
		}
		for ; left > 0; left-- {
			w &= w - 1
		}
		return at*64 + bits.TrailingZeros64(w)
	}
}

// stretches is how many runs of neighbours the ranks that are left form.
func (s *sieve) stretches() int {
	n, last := 0, uint64(0)
	for _, w := range s.words {
		n += bits.OnesCount64(w &^ (w<<1 | last))
		last = w >> 63
	}
	return n
}
