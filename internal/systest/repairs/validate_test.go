package repairs

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// S2-5, S2-7, S4-9, S4-17 to S4-19, S0-27 to S0-32: all sets of failures of small jobs and some of a
// larger one: collectives fail at every rank until the validate, which gives all the same ranks, and
// then every one does what it would do had the gone never been there. In both profiles.
func TestCollectivesAfterEverySetOfFailures(t *testing.T) {
	var jobs []ranktest.SimulatedJob
	add := func(n int, set uint64) {
		j := ranktest.SimulatedJob{N: n, Seed: set, Kills: map[int]time.Duration{}, Opts: []banyan.Option{banyan.WithProfile(ranktest.BothProfiles[len(jobs)%2])}}
		for rank := range n {
			if set>>rank&1 != 0 {
				j.Kills[rank] = time.Millisecond
			}
		}
		jobs = append(jobs, j)
	}
	for n := 1; n <= 5; n++ {
		for set := range uint64(1)<<n - 1 {
			add(n, set)
		}
	}
	rng := rand.New(rand.NewPCG(4, 17))
	for range 6 {
		add(24, rng.Uint64()&rng.Uint64()&(1<<24-1))
	}
	for _, j := range jobs {
		require.NoError(t, j.Run(func(w *banyan.World) error {
			c := w.Comm()
			w.Sleep(2 * time.Second)
			gone := ranktest.RanksIn(c.GetFailed(), c)
			slices.Sort(gone)
			if len(gone) != len(j.Kills) {
				return fmt.Errorf("%v known of %v", gone, j.Kills)
			}
			if len(gone) > 0 {
				if err := c.Barrier(); !errors.Is(err, banyan.ErrRankFailStop) {
					return fmt.Errorf("a barrier before the validate: %w", err)
				}
			}
			failed, err := c.Validate()
			if err != nil {
				return err
			}
			if got := ranktest.RanksIn(failed, c); !slices.Equal(got, gone) || c.FailureGetAcked().Size() != len(gone) {
				return fmt.Errorf("agreed on %v, acknowledged %v, want %v", got, ranktest.RanksIn(c.FailureGetAcked(), c), gone)
			}
			err = ranktest.CheckCollectivesAndSplit(c, gone)
			ranktest.Linger(w)
			return err
		}), "%d ranks without %v", j.N, j.Kills)
	}
}
