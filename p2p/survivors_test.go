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

// contextTable records the contexts of communicators, and that different ones differ.
type contextTable map[uint32]string // description by context

func (x contextTable) add(t *testing.T, name string, c *Comm, err error) *Comm {
	require.NoError(t, err, name)
	if c == nil {
		return c
	}
	for _, o := range c.linkedComms(nil) {
		members := slices.Compact(slices.Sorted(slices.Values(append(o.group.Procs(), o.peers.Procs()...))))
		for what, ctx := range map[string]uint32{"messages": o.Context(), "collectives": o.firstCollContext()} {
			where := fmt.Sprintf("%s: %s of %v, %s", name, o.name, members, what)
			if was, ok := x[ctx]; ok {
				require.Equal(t, was, where)
			}
			x[ctx] = where
		}
	}
	return c
}

// addSurvivors adds the survivors of a communicator for a set of ended members, at three numbers.
func (x contextTable) addSurvivors(t *testing.T, comms []*Comm, ended uint) {
	var list []proc.ID
	for p := range proc.ID(6) {
		if ended>>p&1 != 0 {
			list = append(list, p)
		}
	}
	for number := 3 * uint64(ended); number < 3*uint64(ended)+3; number++ { // each is used once
		name := fmt.Sprintf("without %b, %d", ended, number)
		for _, c := range comms {
			c.e.p.Lock()
			left, err := c.Survivors(list, number, nil)
			x.add(t, name, left, err)
			if left != nil {
				again, err := left.Survivors(list, number, nil)
				x.add(t, name+" again", again, err)
			}
			c.e.p.Unlock()
		}
	}
}

// The contexts of survivors, for all sets of ended members and numbers, of a communicator, its
// duplicate, its survivors, and both kinds of two sides, are all different, and alike at the
// members.
func TestContextsOfSurvivors(t *testing.T) {
	const n = 6
	contexts := contextTable{}
	s, err := sim.New(sim.DefaultConfig(n))
	require.NoError(t, err)
	for id := range proc.ID(n) {
		require.NoError(t, s.Spawn(id, func(p *sim.Proc) {
			e := New(progress.New(progress.Config{Self: id, Host: p.Host(),
				Others: []fabric.Provider{p.Provider()}}), true, Limits{})
			world, err := e.NewComm("world", WorldGroup(n), int(id), 1)
			contexts.add(t, "world", world, err)
			dup, err := world.Dup()
			contexts.add(t, "dup", dup, err)
			side := NewGroup([]proc.ID{id % 2, id%2 + 2, id%2 + 4})
			half, err := world.Derive(world.Count(), side, uint64(id%2))
			contexts.add(t, "half", half, err)
			other := NewGroup([]proc.ID{1 - id%2, 1 - id%2 + 2, 1 - id%2 + 4})
			inter, err := half.Bridge(half.Count(), other, 77)
			contexts.add(t, "inter", inter, err)
			for ended := range uint(1 << n) {
				if ended>>id&1 == 0 {
					contexts.addSurvivors(t, []*Comm{world, dup, inter}, ended)
				}
			}
			e.p.Depart()
			_ = e.p.Close()
		}))
	}
	require.NoError(t, s.Run())
	require.Greater(t, len(contexts), 1000)
}
