package collectives

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// Nobody leaves a barrier before all have come, over any tree and in any design, begun or not, with ranks that are gone too; whoever is late.
func TestBarrierWaitsForAll(t *testing.T) {
	for _, n := range []int{2, 3, 5, 8, 13}[:ranktest.Scaled(5, 3)] {
		for _, count := range []int{0, n / 3} {
			dead := ranktest.Iota(n)[1 : 1+count]
			kill := func(s *sim.Sim) (err error) {
				for _, rank := range dead {
					err = errors.Join(err, s.Kill(proc.ID(rank), fabric.Time(time.Millisecond)))
				}
				return err
			}
			require.NoError(t, banyan.Simulate(n, banyan.Simulation{Faults: kill}, func(w *banyan.World) error {
				if err := without(w.Comm(), dead); err != nil {
					return err
				}
				return allBarriers(w, n, dead)
			}), "%d ranks without %v", n, dead)
		}
	}
}

func allBarriers(w *banyan.World, n int, dead []int) error {
	c := w.Comm()
	step := time.Duration(0)
	for _, way := range ways() {
		if err := c.SetDesign(way.design); err != nil {
			return err
		}
		if err := c.SetTree(way.tree); err != nil {
			return err
		}
		if way.design == banyan.Unaware && len(dead) > 0 {
			continue
		}
		for late := range n {
			if slices.Contains(dead, late) {
				continue
			}
			step++
			until := time.Second + step*time.Millisecond
			if c.Rank() == late {
				w.Sleep(until - w.Now())
			}
			do := c.Barrier
			if step%2 == 0 {
				do = func() error { return wait(c.IBarrier()) }
			}
			if err := do(); err != nil {
				return err
			}
			if now := w.Now(); now < until {
				return fmt.Errorf("%v %s: left at %v, and rank %d came at %v", way.design, way.tree, now, late, until)
			}
		}
	}
	return nil
}

func wait(r banyan.Request) error {
	_, err := r.Wait()
	return err
}
