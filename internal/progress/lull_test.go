package progress

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A wait polls between yields while yields return at once, more and more often, and yields at every
// poll again as soon as another process has had the core.
func TestLull(t *testing.T) {
	var l lull
	for range cheapYields - 1 {
		require.False(t, l.yielded(cheapYield))
		require.Zero(t, l.left)
	}
	require.True(t, l.yielded(cheapYield))
	require.Equal(t, leastLull, l.left)
	for range 10 {
		require.False(t, l.yielded(cheapYield))
	}
	require.Equal(t, mostLull, l.left)
	require.True(t, l.yielded(cheapYield+1))
	require.Zero(t, l.left)
	require.False(t, l.yielded(cheapYield))
	require.Zero(t, l.left)
}
