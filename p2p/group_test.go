package p2p

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/internal/proc"
)

func TestGroupAgainstList(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	lists := [][]proc.ID{{}, {7}, {3, 4, 5}, {0, 2, 4, 6}, {9, 6, 3, 0}, {1, 2, 3, 9, 8, 7}}
	for n := range 60 { // irregular: many runs
		l := make([]proc.ID, 0, n)
		for _, p := range rng.Perm(3 * (n + 1))[:n] {
			l = append(l, proc.ID(p))
		}
		lists = append(lists, l)
	}
	for _, l := range lists {
		g := NewGroup(l)
		require.Equal(t, len(l), g.Size())
		require.True(t, slices.Equal(l, g.Procs()), "%v", l)
		for p := range proc.ID(200) {
			require.Equal(t, slices.Index(l, p), g.Rank(p), "rank of %v in %v", p, l)
		}
		require.True(t, g.Equal(NewGroup(l)))
	}
	require.True(t, WorldGroup(5).Equal(NewGroup([]proc.ID{0, 1, 2, 3, 4})))
	require.False(t, WorldGroup(3).Equal(NewGroup([]proc.ID{0, 2, 1})))
	require.NotEqual(t, WorldGroup(3).digest(), NewGroup([]proc.ID{0, 2, 1}).digest())
	require.Len(t, NewGroup([]proc.ID{4, 8, 12, 16}).runs, 1, "a stride is one run")
}
