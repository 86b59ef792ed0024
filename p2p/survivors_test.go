package p2p

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
)

// The contexts of survivors, for all sets of ended members and numbers, of a communicator, its
// duplicate, its survivors, and both kinds of two sides, are all different, and alike at the
// members.
func TestContextsOfSurvivors(t *testing.T) {
	const n = 6
	contexts := make(map[uint32]string) // what has the context
	made := func(name string, c *Comm, err error) *Comm {
		require.NoError(t, err, name)
		if c != nil {
			for _, o := range c.linkedComms(nil) {
				members := slices.Compact(slices.Sorted(slices.Values(append(o.group.Procs(), o.peers.Procs()...))))
				for what, ctx := range map[string]uint32{"messages": o.Context(), "collectives": o.firstCollContext()} {
					where := fmt.Sprintf("%s: %s of %v, %s", name, o.name, members, what)
					if was, ok := contexts[ctx]; ok {
						require.Equal(t, was, where)
					}
					contexts[ctx] = where
				}
			}
		}
		return c
	}
	s, err := sim.New(sim.DefaultConfig(n))
	require.NoError(t, err)
	for id := range proc.ID(n) {
		require.NoError(t, s.Spawn(id, func(p *sim.Proc) {
			e := New(progress.New(progress.Config{Self: id, Host: p.Host(),
				Others: []fabric.Provider{p.Provider()}}), true, Limits{})
			world, err := e.NewComm("world", WorldGroup(n), int(id), 1)
			made("world", world, err)
			dup, err := world.Dup()
			made("dup", dup, err)
			side := NewGroup([]proc.ID{id % 2, id%2 + 2, id%2 + 4})
			half, err := world.Derive(world.Count(), side, uint64(id%2))
			made("half", half, err)
			other := NewGroup([]proc.ID{1 - id%2, 1 - id%2 + 2, 1 - id%2 + 4})
			inter, err := half.Bridge(half.Count(), other, 77)
			made("inter", inter, err)
			for dead := range uint(1 << n) {
				if dead>>id&1 != 0 {
					continue
				}
				var gone []proc.ID
				for p := range proc.ID(n) {
					if dead>>p&1 != 0 {
						gone = append(gone, p)
					}
				}
				for number := 3 * uint64(dead); number < 3*uint64(dead)+3; number++ { // each is used once
					name := fmt.Sprintf("without %b, %d", dead, number)
					for _, c := range []*Comm{world, dup, inter} {
						e.p.Lock()
						left, err := c.Survivors(gone, number, nil)
						made(name, left, err)
						if left != nil {
							again, err := left.Survivors(gone, number, nil)
							made(name+" again", again, err)
						}
						e.p.Unlock()
					}
				}
			}
			e.p.Depart()
			_ = e.p.Close()
		}))
	}
	require.NoError(t, s.Run())
	require.Greater(t, len(contexts), 1000)
}
