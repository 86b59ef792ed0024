package drill

import (
	"io"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// lone is a rank of n without a world.
func lone(me, n int) *rank {
	return &rank{p: &plan{n: n}, me: me, trace: memoryTrace(n), blamed: map[int]bool{}, out: io.Discard}
}

// A collective that leaves a block of its result as it was, or that swaps segments, is a finding.
func TestWrongResultsOfCollectivesAreFound(t *testing.T) {
	const n, elements = 3, 4
	s := &shared{elements: elements, rounds: 1}
	found := 0
	for k := bcast; k < nonblockingCollective; k++ {
		s.kind = k
		for me := range n {
			judge := func(spoil func(u *part, before []int64)) error {
				r := lone(me, n)
				u := r.part(s, k)
				before := slices.Clone(u.got)
				copy(u.got, u.want)
				spoil(u, before)
				return r.completed(s, 0, u, nil)
			}
			require.NoError(t, judge(func(*part, []int64) {}), k)
			u := lone(me, n).part(s, k)
			if len(u.got) == 0 {
				continue
			}
			require.NotContains(t, u.want, int64(0), k)
			require.NotContains(t, u.want, int64(-1), k)
			require.Error(t, judge(func(u *part, _ []int64) { // two segments swapped
				u.got[0], u.got[1], u.got[2], u.got[3] = u.got[2], u.got[3], u.got[0], u.got[1]
			}), "%v at rank %d", k, me)
			if slices.Equal(u.got, u.want) {
				continue // nothing comes to the root of a broadcast, or the first rank of a scan
			}
			found++
			require.Error(t, judge(func(u *part, before []int64) { // the block of rank 0 untouched
				copy(u.got[:elements], before)
			}), "%v at rank %d", k, me)
		}
	}
	require.Positive(t, found)
}
