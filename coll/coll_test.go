package coll

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The places of a cube are a power of two of the ranks in their order, and a rank without a place has a neighbour
// below that works for it.
func TestCube(t *testing.T) {
	for n := 1; n <= 70; n++ {
		last, left := -1, 0
		for me := range n {
			h := cubeAt(n, me, same)
			if h.me < 0 {
				below := cubeAt(n, me-1, same)
				require.True(t, below.helps(), "rank %d of %d", me, n)
				left++
				continue
			}
			require.Equal(t, me, h.rank(h.me), "rank %d of %d", me, n)
			require.Equal(t, last+1, h.me)
			last = h.me
		}
		require.Equal(t, n, last+1+left)
		require.Equal(t, 0, (last+1)&last, "%d places of %d ranks", last+1, n)
	}
}

// A length header is known by its length and its text, and carries a length and that of elements.
func TestLengthHeader(t *testing.T) {
	var m header
	b := m.set(1<<40, 16)
	require.True(t, isHeader(b, len(b)))
	require.Equal(t, 1<<40, lengthIn(b))
	require.False(t, isHeader(b, len(b)-1))
	require.Equal(t, 61, len(b))
	other := new(header)
	sameHeader(b, other.set(1<<40, 16))
	require.True(t, isHeader(b, len(b)))
	sameHeader(b, other.set(1<<40, 8))
	require.False(t, isHeader(b, len(b)))
}
