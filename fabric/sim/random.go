package sim

import (
	"math/bits"
	"math/rand/v2"
)

// purpose separates the random numbers of one decision from those of another.
type purpose uint64

const (
	forSpike purpose = iota + 1
	forSpikeLength
	forDetection
	forLoss
	forLossLength
	forBody
	forMoves
	forFetches
)

// draw is a pure function of the seed and its arguments, so that a decision depends on nothing
// else. The mixing is SplitMix64's (Steele, Lea, Flood 2014), applied once per argument.
func draw(seed uint64, why purpose, a, b, count uint64) uint64 {
	x := mix(seed + uint64(why))
	x = mix(x + a)
	x = mix(x + b)
	return mix(x + count)
}

func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// below maps a draw to 0 … n-1. The bias is n/2^64.
func below(x, n uint64) uint64 {
	hi, _ := bits.Mul64(x, n)
	return hi
}

// happens maps a draw to true with probability chance. The product is by a
// power of two, so it is the same on every machine.
func happens(x uint64, chance float64) bool {
	return float64(x>>11) < chance*(1<<53)
}

// octaves maps a draw to a length in [lo, hi): first an octave of equal chance,
// then uniformly within it. Integers only, so it is the same on every machine.
//
// Preconditions: 0 < lo < hi.
func octaves(x uint64, lo, hi Picos) Picos {
	n := uint64(1)
	for lo<<n < hi {
		n++
	}
	start := lo << below(x, n)
	end := min(start<<1, hi)
	return start + Picos(below(mix(x), uint64(end-start)))
}

// newRand is the random source of one process's body.
func newRand(seed uint64, id uint64) *rand.Rand {
	return rand.New(rand.NewPCG(draw(seed, forBody, id, 0, 0), draw(seed, forBody, id, 0, 1)))
}
