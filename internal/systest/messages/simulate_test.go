package messages

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

func TestSimulatedRing(t *testing.T) {
	for _, n := range []int{1, 2, 3, 16} {
		for _, get := range []bool{true, false} {
			t.Run(fmt.Sprintf("%d ranks, get %v", n, get), func(t *testing.T) {
				require.NoError(t, banyan.Simulate(n, banyan.Simulation{
					Configure: func(c *sim.Config) { c.Get = get },
				}, ranktest.Ring))
			})
		}
	}
}

// A death at each step of a send ends the receive with an error that names the
// rank, or the message is whole.
func TestSimulatedDeathOfTheSender(t *testing.T) {
	for step := uint64(1); step < 60; step++ {
		for _, size := range []int{8, 20_000, 1 << 20} {
			err := banyan.Simulate(2, banyan.Simulation{
				Seed:   step,
				Faults: func(s *sim.Sim) error { return s.KillAtStep(1, step) },
			}, func(w *banyan.World) error {
				c := w.Comm()
				if c.Rank() == 1 {
					return c.Send(ranktest.Pattern(1, size), 0, 3)
				}
				buf := make([]byte, size)
				_, err := c.Recv(buf, 1, 3)
				var failed *banyan.ProcFailedError
				switch {
				case err == nil && !bytes.Equal(buf, ranktest.Pattern(1, size)):
					return errors.New("half a message was delivered")
				case err != nil && !errors.Is(err, banyan.ErrProcFailed):
					return err
				case err != nil && (!errors.As(err, &failed) || len(failed.Ranks) != 1 || failed.Ranks[0] != 1):
					return fmt.Errorf("the error does not name rank 1: %w", err)
				}
				return nil
			})
			require.NoError(t, err, "step %d, size %d", step, size)
		}
	}
}

func TestSimulatedClock(t *testing.T) {
	var d time.Duration
	run := func() error {
		return banyan.Simulate(2, banyan.Simulation{}, func(w *banyan.World) error {
			err := ranktest.Ring(w)
			d = w.Now()
			return err
		})
	}
	require.NoError(t, run())
	first := d
	require.NoError(t, run())
	require.Equal(t, first, d, "the same seed took another time")
	require.NotZero(t, d)
}
