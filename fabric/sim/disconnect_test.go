package sim_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// Two disconnected processes lose their connection, at both ends, and get no other; no other pair
// does.
func TestDisconnect(t *testing.T) {
	s, err := sim.New(sim.DefaultConfig(3))
	require.NoError(t, err)
	require.Error(t, s.Disconnect(1, 1, 0))
	require.Error(t, s.Disconnect(1, 3, 0))
	require.NoError(t, s.Disconnect(0, 1, 1000))
	ends := make([]map[proc.ID]proc.Kind, 3)
	for id := range proc.ID(3) {
		ends[id] = map[proc.ID]proc.Kind{}
		require.NoError(t, s.Spawn(id, func(p *sim.Proc) {
			connect := func(peer proc.ID) error {
				_, err := p.Provider().Connect(fabric.ConnectSpec{Peer: peer, Address: sim.Address(peer)})
				return err
			}
			sink := &fabric.Sink{Down: func(peer proc.ID, c proc.Cause) { ends[id][peer] = c.Kind }}
			first := connect((id + 1) % 3)
			for p.Host().Now() < 10_000 {
				p.Provider().Poll(sink)
				p.Host().Pause(100)
			}
			again := [...]error{connect((id + 1) % 3), connect((id + 2) % 3)}
			for i, peer := range []proc.ID{(id + 1) % 3, (id + 2) % 3} {
				if id != 2 && peer != 2 {
					assert.ErrorIs(t, again[i], fabric.ErrNoPath)
				} else {
					assert.NoError(t, again[i])
				}
			}
			assert.NoError(t, first)
			p.Provider().Depart()
		}))
	}
	require.NoError(t, s.Run())
	require.Equal(t, []map[proc.ID]proc.Kind{{1: proc.Unreachable}, {0: proc.Unreachable}, {}}, ends)
}
