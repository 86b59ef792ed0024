package p2p

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
)

// alone runs fn with the world communicator of one process of n.
func alone(b *testing.B, n int, fn func(world *Comm)) {
	b.Helper()
	s, err := sim.New(sim.DefaultConfig(n))
	require.NoError(b, err)
	require.NoError(b, s.Spawn(0, func(p *sim.Proc) {
		e := New(progress.New(progress.Config{Self: 0, Host: p.Host(),
			Others: []fabric.Provider{p.Provider()}}), true, Limits{})
		world, err := e.NewComm("world", WorldGroup(n), 0, 1)
		require.NoError(b, err)
		fn(world)
		e.p.Depart()
		_ = e.p.Close()
	}))
	require.NoError(b, s.Run())
}

// The cost of a shrink beside its agreement, at each rank: with no failed member, or every fourth.
func BenchmarkSurvivors(b *testing.B) {
	for _, n := range []int{4, 32, 1024} {
		for _, every := range []int{0, 4} {
			b.Run(fmt.Sprintf("%d/%d", n, every), func(b *testing.B) {
				var ended []proc.ID
				for p := 1; every > 0 && p < n; p += every {
					ended = append(ended, proc.ID(p))
				}
				alone(b, n, func(world *Comm) {
					world.e.Lock()
					defer world.e.Unlock()
					number := uint64(0)
					b.ReportAllocs()
					for b.Loop() {
						number++
						left, err := world.Survivors(ended, number, nil)
						if err != nil {
							b.Fatal(err)
						}
						left.free()
					}
				})
			})
		}
	}
}

// The cost of a duplicate.
func BenchmarkDup(b *testing.B) {
	alone(b, 32, func(world *Comm) {
		b.ReportAllocs()
		for b.Loop() {
			d, err := world.Dup()
			if err == nil {
				err = d.Free()
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	})
}
