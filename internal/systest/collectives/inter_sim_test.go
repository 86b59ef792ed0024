package collectives

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// bridgeBreaks has 6 ranks make an intercommunicator of the even and the odd ones, whose leaders are rank 0 of their side; one
// of the even side dies in place of a step, and what it has sent may be lost to some and reach others.
func bridgeBreaks(seed, step uint64, doomed proc.ID) (made, failed int, err error) {
	const n = 6
	var got [n]bool
	sides := make([]*banyan.Comm, n)
	var errs [n]error
	err = banyan.Simulate(n, banyan.Simulation{
		Seed:    seed,
		Options: []banyan.Option{banyan.WithDetection(200*time.Millisecond, time.Second)},
		Configure: func(c *sim.Config) {
			c.MaxTime, c.LossAtDeath = fabric.Time(time.Minute), 0.7
			c.Spikes = sim.Spikes{Chance: 0.2, Min: sim.Microsecond, Max: 2 * sim.Millisecond} // some come late, and know of the death
			c.Topology.ProcsPerNode = 1 + int(seed%3)
		},
		Faults: func(s *sim.Sim) error { return s.KillAtStep(doomed, step) },
	}, func(w *banyan.World) error {
		inter, err := ranktest.BridgeHalves(w, sides, 0)
		me := w.Comm().Rank()
		got[me], errs[me] = inter != nil, err
		for w.Now() < 10*time.Second { // so that nobody is seen to depart
			w.Sleep(50 * time.Millisecond)
			_, _, _ = w.Comm().Iprobe(me, 1)
		}
		return nil
	})
	for rank := range n {
		switch {
		case rank == int(doomed):
		case got[rank] && errs[rank] == nil:
			made++
		case !got[rank] && errors.Is(errs[rank], banyan.ErrProcFailed):
			failed++
		default:
			err = errors.Join(err, fmt.Errorf("rank %d: %w", rank, errs[rank]))
		}
	}
	return made, failed, err
}

// S4-21: one side may find that it lacks a rank when the other has all of its own, and a leader may tell the other side that its
// own is ready and die: nobody must wait for ranks that have come to something else, nor have what they have not.
func TestCreateInterBreaks(t *testing.T) {
	outcomes := [2]int{}
	for seed := range uint64(2) {
		for _, doomed := range []proc.ID{0, 2, 4} {
			for step := uint64(10); step <= 120; step += uint64(ranktest.Scaled(1, 55)) { // from the start to the last agreement
				made, failed, err := bridgeBreaks(seed, step, doomed)
				require.NoError(t, err, "seed %d, rank %d, step %d", seed, doomed, step)
				require.True(t, made == 0 || failed == 0, "seed %d, rank %d, step %d: %d have it, %d do not", seed, doomed, step, made, failed)
				if made > 0 {
					outcomes[0]++
				} else {
					outcomes[1]++
				}
			}
		}
	}
	ranktest.Occurred(t, outcomes[0], "none succeeded")
	ranktest.Occurred(t, outcomes[1], "none failed")
}
