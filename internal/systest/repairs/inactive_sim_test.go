package repairs

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// collective are the operations of barred that need all ranks.
var collective = []string{
	"Barrier", "Bcast", "ReduceBytes", "AllreduceBytes", "AllgatherBytes", "GatherBytes", "ScatterBytes",
	"IBarrier", "IBcast", "IReduceBytes", "IAllreduceBytes", "IAllgatherBytes", "IGatherBytes", "IScatterBytes",
	"bcast", "reduce", "allreduce", "allgather", "Split", "SplitByNode",
}

// S2-7, S1-36, S4-18: as soon as a rank knows of a failure each collective ends there with it, each time, also when the
// failure has been acknowledged: in both profiles (under ULFM the first one by messages), and also where the messages of collectives look for no failures.
func TestEveryCollectiveIsInactive(t *testing.T) {
	for _, profile := range ranktest.BothProfiles {
		for _, design := range []banyan.Design{banyan.Rebalance, banyan.Unaware} {
			j := ranktest.SimulatedJob{N: 4, Kills: map[int]time.Duration{3: 100 * time.Millisecond}, Opts: []banyan.Option{banyan.WithProfile(profile), banyan.WithDesign(design)}}
			require.NoError(t, j.Run(inactive), "%v, %v", profile, design)
		}
	}
}

// inactive does everything while all live, and then when the last rank has died.
func inactive(w *banyan.World) error {
	c := w.Comm()
	ops := barred(c)
	for _, name := range collective {
		if err := ops[name](); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	w.Sleep(3 * time.Second)
	for _, acknowledged := range []bool{false, true} {
		for _, name := range collective {
			if err := ops[name](); ranktest.WantFailed(err, 3) != nil || !errors.Is(err, banyan.ErrRankFailStop) {
				return fmt.Errorf("%s, acknowledged %v: %w", name, acknowledged, cmpOr(err))
			}
		}
		if err := c.FailureAck(); err != nil {
			return err
		}
	}
	ranktest.Linger(w)
	return nil
}

// S0-32: with ranks that are agreed to be gone, groups include and exclude them, communicators are made with them
// and without, and collectives on those go on among who is left; whether creation is uniform or not.
func TestGroupsWithTheGone(t *testing.T) {
	for _, level := range []banyan.Uniformity{banyan.UniformNothing, banyan.UniformCreation} {
		j := ranktest.SimulatedJob{N: 6, Seed: 32, Kills: map[int]time.Duration{1: time.Millisecond, 3: time.Millisecond}, Opts: []banyan.Option{banyan.WithProfile(banyan.RTS)}}
		require.NoError(t, j.Run(func(w *banyan.World) error {
			c := w.Comm()
			w.Sleep(2 * time.Second)
			if failed, err := c.Validate(); err != nil || failed.Size() != 2 {
				return fmt.Errorf("%d failed: %w", failed.Size(), err)
			}
			if err := c.SetUniformity(level); err != nil {
				return err
			}
			err := errors.Join(amongTheGone(c), withoutTheGone(c))
			ranktest.Linger(w)
			return err
		}), "%v", level)
	}
}

// amongTheGone makes a communicator of ranks of which the first and the last are gone.
func amongTheGone(c *banyan.Comm) error {
	some, err := c.Group().Include(3, 0, 4, 2, 1)
	if err != nil {
		return err
	}
	d, err := c.Create(some)
	if err != nil || c.Rank() == 5 {
		if d != nil {
			err = errors.Join(err, errors.New("rank 5 is in"))
		}
		return err
	}
	if want := slices.Index([]int{3, 0, 4, 2, 1}, c.Rank()); d.Rank() != want || d.Size() != 5 {
		return fmt.Errorf("rank %d of %d, want %d of 5", d.Rank(), d.Size(), want)
	}
	if gone := ranksIn(d.FailureGetAcked(), d); !slices.Equal(gone, []int{0, 4}) {
		return fmt.Errorf("gone are %v", gone)
	}
	if err := d.Send([]byte("abc"), 0, 1); err != nil {
		return fmt.Errorf("to the gone: %w", err)
	}
	if st, err := d.Recv(nil, 4, 1); err != nil || st.Source != banyan.ProcNull {
		return fmt.Errorf("from the gone: %+v, %w", st, err)
	}
	return ranktest.CheckCollectivesAndSplit(d, []int{0, 4})
}

// withoutTheGone makes one without them.
func withoutTheGone(c *banyan.Comm) error {
	alive, err := c.Group().Exclude(1, 3)
	if err != nil {
		return err
	}
	d, err := c.Create(alive)
	if err != nil {
		return err
	}
	if d.Size() != 4 || d.GetFailed().Size() != 0 {
		return fmt.Errorf("%d ranks, %d of them failed", d.Size(), d.GetFailed().Size())
	}
	return ranktest.CheckCollectivesAndSplit(d, nil)
}
