package p2p

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The places of freed communicators are reused, and a context finds its communicator until that is
// freed.
func TestCommTable(t *testing.T) {
	_, e, world := newScripted(t)
	require.Same(t, world.Coll(), e.comms.find(world.Coll().ctx, 0))
	for ctx := range uint32(50) {
		c, err := e.NewComm("c", WorldGroup(2), 0, 100+ctx)
		require.NoError(t, err)
		require.Less(t, c.place, int32(4))
		require.Same(t, c, e.comms.find(c.ctx, 0))
		require.NoError(t, c.Free())
		require.Nil(t, e.comms.find(c.ctx, 0))
	}
	require.Same(t, world, e.comms.find(world.ctx, 0))
}
