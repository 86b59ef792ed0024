package communicators

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
)

// If the other side's leader has died or departed, all ranks of this side get an error that names
// it.
func TestCreationWithoutTheOtherLeader(t *testing.T) {
	for _, dies := range []bool{true, false} {
		for _, merge := range []bool{true, false} {
			t.Run(fmt.Sprintf("dies %v, merge %v", dies, merge), func(t *testing.T) {
				require.NoError(t, banyan.Simulate(6, banyan.Simulation{Faults: func(s *sim.Sim) error {
					if !dies {
						return nil
					}
					return s.Kill(1, fabric.Time(time.Second))
				}}, func(w *banyan.World) error { return halves(w, dies, merge) }))
			})
		}
	}
}

// halves has the even ranks create a communicator with the odd ranks, whose first, rank 1, has
// ended.
func halves(w *banyan.World, dies, merge bool) error {
	c, odd := w.Comm(), w.Comm().Rank()%2
	side, err := c.Split(odd, 0)
	if err != nil {
		return err
	}
	var inter *banyan.Comm
	if merge {
		if inter, err = side.CreateInter(0, c, 1-odd, 9); err != nil {
			return err
		}
	}
	switch {
	case c.Rank() == 1 && dies:
		_, err := c.Recv(nil, 1, 99) // killed here
		return err
	case odd == 1:
		return nil
	}
	w.Sleep(2 * time.Second)
	rank := 1 // of the failed one, in the communicator that the error names
	if merge {
		rank = 0
		_, err = inter.Merge(false)
	} else {
		_, err = side.CreateInter(0, c, 1, 10)
	}
	if !dies {
		if !errors.Is(err, banyan.ErrDeparted) || errors.Is(err, banyan.ErrProcFailed) {
			return fmt.Errorf("rank %d: want that a rank has departed, got: %w", c.Rank(), err)
		}
		return nil
	}
	var failed *banyan.ProcFailedError
	if !errors.As(err, &failed) || !slices.Equal(failed.Ranks, []int{rank}) || failed.Cause.Kind == 0 {
		return fmt.Errorf("rank %d: want the failure of rank %d and its cause, got: %w", c.Rank(), rank, err)
	}
	return nil
}

// A rank with a wrong color takes part in the split: the others get theirs without it, and the next split
// gives all of them the same communicator.
func TestSplitWithAWrongColor(t *testing.T) {
	require.NoError(t, banyan.Simulate(3, banyan.Simulation{}, func(w *banyan.World) error {
		c := w.Comm()
		if c.Rank() == 1 {
			require.ErrorIs(t, second(c.Split(-1, 0)), banyan.ErrArgument)
		} else {
			two, err := c.Split(0, 0)
			if err != nil {
				return err
			}
			require.Equal(t, []int{0, 2}, two.Group().Ranks())
			if err := token(two, c); err != nil {
				return err
			}
		}
		all, err := c.Split(0, 0)
		if err != nil {
			return err
		}
		require.Equal(t, 3, all.Size())
		return token(all, c)
	}))
}
