package tree

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// Conversions between ranks and numbers agree with a list, for sizes around those of words and of
// blocks.
func TestAlive(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 6))
	for _, n := range []int{1, 2, 63, 64, 65, 127, 511, 512, 513, 1300} {
		for round := range 12 {
			list, dead := []int(nil), []int(nil)
			for rank := range n {
				if rng.IntN(11) < round {
					dead = append(dead, rank)
				} else {
					list = append(list, rank)
				}
			}
			rng.Shuffle(len(dead), func(i, j int) { dead[i], dead[j] = dead[j], dead[i] })
			a := Except(n, dead...)
			require.Equal(t, n, a.Size())
			require.Equal(t, len(list), a.Count())
			runs, last := 0, -2
			for number, rank := range list {
				require.Equal(t, rank, a.Rank(number))
				if rank != last+1 {
					runs++
				}
				last = rank
			}
			require.Equal(t, runs, a.Runs())
			for rank := range n {
				number := slices.Index(list, rank)
				require.Equal(t, number, a.Number(rank))
				require.Equal(t, number >= 0, a.Has(rank))
			}
			require.Equal(t, a, FromWords(a.Words(), n))
		}
	}
}

// Bits beyond n in the last word are ignored.
func TestFromWords(t *testing.T) {
	a := FromWords([]uint64{^uint64(0), ^uint64(0)}, 70)
	require.Equal(t, All(70), a)
	require.Equal(t, []uint64{^uint64(0), 1<<6 - 1}, a.Words())
	require.Equal(t, 0, FromWords(nil, 0).Count())
	require.PanicsWithValue(t, "tree: 1 words for 70 ranks, want 2", func() { FromWords(make([]uint64, 1), 70) })
}

// Runs go on from one word to the next.
func TestRuns(t *testing.T) {
	require.Equal(t, 1, All(200).Runs())
	require.Equal(t, 0, All(0).Runs())
	require.Equal(t, 2, FromWords([]uint64{1, 0, 1}, 129).Runs())
	require.Equal(t, 2, FromWords([]uint64{1<<63 | 1, 1}, 128).Runs())
}

// Words of a set are the caller's own.
func TestWordsAreCopied(t *testing.T) {
	a := Except(70, 3)
	a.Words()[0] = 0
	require.Equal(t, 69, a.Count())
	require.True(t, a.Has(4))
}

func BenchmarkAlive(b *testing.B) {
	rng := rand.New(rand.NewPCG(2, 7))
	a := random(rng, 1<<20, 0.5)
	b.Run("number", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			a.Number(i * 7919 % a.Size())
		}
	})
	b.Run("rank", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			a.Rank(i * 7919 % a.Count())
		}
	})
}
