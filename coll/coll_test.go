package coll

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Every virtual rank but the root has one parent, from which the path leads to
// the root, in at most as many steps as the number of ranks has bits.
func TestTree(t *testing.T) {
	for n := 1; n <= 70; n++ {
		for v := range n {
			steps := 0
			for at := v; at != 0; at -= lowest(at, n) {
				require.Less(t, at-lowest(at, n), at)
				steps++
			}
			require.Less(t, 1<<steps, 2*n, "rank %d of %d", v, n)
		}
		require.GreaterOrEqual(t, lowest(0, n), n, "the root's subtree is everything")
	}
}
