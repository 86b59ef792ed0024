package p2p

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/internal/proc"
)

// Groups cut from others, twice, against lists: of sizes around those of words and of blocks, with
// few ended members, with many and with all but one.
func TestGroupWithout(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 6))
	scattered := 0
	for _, n := range []int{1, 2, 63, 64, 65, 511, 512, 513, 1300} {
		for round := range 12 {
			list := make([]proc.ID, n)
			for i, p := range rng.Perm(2 * n)[:n] {
				list[i] = proc.ID(p)
			}
			if round%2 == 0 {
				slices.Sort(list)
			}
			g := NewGroup(list)
			for range 2 {
				var ended []proc.ID
				for _, p := range list {
					if rng.IntN(12) < round {
						ended = append(ended, p)
					}
				}
				ended = append(ended, proc.ID(2*n)) // no member
				g = g.without(ended)
				list = slices.DeleteFunc(list, func(p proc.ID) bool { return slices.Contains(ended, p) })
				require.Equal(t, len(list), g.Size())
				require.True(t, slices.Equal(list, g.Procs()))
				for p := range proc.ID(2*n + 70) {
					require.Equal(t, slices.Index(list, p), g.Rank(p))
				}
				require.Equal(t, NewGroup(list).digest(), g.digest())
				require.True(t, g.Equal(NewGroup(list)))
				if g.kept != nil {
					scattered++
					require.Nil(t, g.from.kept, "cut from what was cut")
				}
			}
		}
	}
	require.Greater(t, scattered, 50)
	w := WorldGroup(100)
	require.Nil(t, w.without([]proc.ID{50, 60}).kept, "few runs need no bits")
	require.Equal(t, w, w.without(nil))
}
