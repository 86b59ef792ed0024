package p2p

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A number identifies its communicator until that is freed, and is small: places are reused, under
// other numbers.
func TestNumbers(t *testing.T) {
	_, e, world := newScripted(t)
	require.Same(t, world, e.CommByNumber(world.Number()))
	require.Same(t, world.Coll(), e.CommByNumber(world.Coll().Number()))
	seen := map[Number]bool{}
	for ctx := range uint32(50) {
		c, err := e.NewComm("c", WorldGroup(2), 0, 100+ctx)
		require.NoError(t, err)
		n := c.Number()
		require.False(t, seen[n])
		seen[n] = true
		require.Less(t, uint32(n), uint32(4))
		require.Same(t, c, e.CommByNumber(n))
		require.NoError(t, c.Free())
		require.Nil(t, e.CommByNumber(n))
	}
	require.Nil(t, e.CommByNumber(77))
	require.Same(t, world, e.CommByNumber(world.Number()))
}
