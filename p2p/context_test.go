package p2p

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/internal/proc"
)

// Communicators made after a validate do not get the context of its collectives, for any ended
// members and any number of communicators.
func TestNumbersAfterValidate(t *testing.T) {
	_, _, c, kill := fourRanks(t)
	for epoch, ended := range [][]proc.ID{nil, {3}, {2, 3}} {
		for _, p := range ended {
			kill(p)
		}
		require.NoError(t, c.validate(uint64(epoch+1), ended...))
		for range 40 {
			_, err := c.Dup()
			require.NoError(t, err, "without %v", ended)
		}
	}
}

// Of two communicators whose contexts collide, the second is not made, as each would receive the
// other's messages. The test looks for two tags with the same hash.
func TestContextCollision(t *testing.T) {
	_, _, c, _ := fourRanks(t)
	g := c.Group()
	context := func(tag int) uint32 { return c.deriveContext(mix(mix(g.digest(), uint64(tag)), 1), 1) }
	tags := map[uint32]int{}
	first, second := -1, 0
	for ; first < 0; second++ {
		if other, taken := tags[context(second)]; taken {
			first = other
			break
		}
		tags[context(second)] = second
	}
	d, ctx, err := c.DeriveAmong(g, first, c.CountAmong(g, first))
	require.NoError(t, err)
	require.Equal(t, context(second), ctx)
	_, _, err = c.DeriveAmong(g, second, c.CountAmong(g, second))
	require.ErrorContains(t, err, "is taken by "+d.Name()+": create it once more")
	require.NoError(t, d.Free())
	_, _, err = c.DeriveAmong(g, second, c.CountAmong(g, second)) // again: its number differs
	require.NoError(t, err)
}
