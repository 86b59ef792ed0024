package banyan

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/sim"
)

// A collective needs both sides of an intercommunicator; the error names the dead
// of each by the rank that they have there. The queries tell the sides apart (S4-7).
func TestCollectiveNamesTheDeadOfBothSides(t *testing.T) {
	require.NoError(t, Simulate(4, Simulation{
		Faults: func(s *sim.Sim) error { return s.Kill(3, fabric.Time(time.Millisecond)) },
	}, func(w *World) error {
		c := w.Comm()
		side, err := c.Split(c.Rank()%2, 0) // 0 and 2, 1 and 3
		if err != nil {
			return err
		}
		inter, err := side.CreateInter(0, c, 1-c.Rank()%2, 7)
		if err != nil {
			return err
		}
		if _, err := c.Recv(make([]byte, 8), 3, 1); !errors.Is(err, ErrProcFailed) || c.Rank() == 3 {
			return fmt.Errorf("rank 3 should be dead: %w", err)
		}
		var failed *ProcFailedError
		if err := inter.core.CheckMembers("barrier"); !errors.As(err, &failed) {
			return fmt.Errorf("a collective without rank 3: %w", err)
		}
		remote, local := []int{1}, []int(nil)
		if c.Rank() == 1 {
			remote, local = local, remote
		}
		if !slices.Equal(failed.Ranks, remote) || !slices.Equal(failed.Local, local) {
			return fmt.Errorf("rank %d: %w: remote %v, local %v", c.Rank(), failed, failed.Ranks, failed.Local)
		}
		if here, there := inter.GroupFailed().Size(), inter.RemoteGroupFailed().Size(); here != len(local) || there != len(remote) {
			return fmt.Errorf("rank %d: %d failed on this side, %d on the other", c.Rank(), here, there)
		}
		return nil
	}))
}
