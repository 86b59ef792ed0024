package collectives

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/launch"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// flatRank calls barriers, broadcasts and allreduces of few bytes, in which one rank after the other kills itself, validates, and goes on, until two are
// left.
func flatRank(w *banyan.World) error {
	seed, err := ranktest.JobSeed()
	if err != nil {
		return err
	}
	c, alive := w.Comm(), make([]int, w.Comm().Size())
	for rank := range alive {
		alive[rank] = rank
	}
	for round := uint64(0); len(alive) > 2; round++ {
		r := rand.New(rand.NewPCG(seed, round)) // all draw the same, also where they have called it less often
		if err := flatRound(c, alive, r); !errors.Is(err, banyan.ErrProcFailed) {
			return fmt.Errorf("round %d: %w", round, err)
		}
		gone, err := c.Validate()
		if err != nil {
			return err
		}
		left := alive[:0]
		for _, rank := range alive {
			if at, err := c.Group().Translate([]int{rank}, gone); err != nil || at[0] < 0 {
				left = append(left, rank)
			}
		}
		alive = left
	}
	for range 100 {
		if err := flatStep(c, alive, rand.New(rand.NewPCG(seed, 99)), 1); err != nil {
			return err
		}
	}
	return nil
}

// flatRound calls one operation after the other until one fails.
func flatRound(c *banyan.Comm, alive []int, r *rand.Rand) error {
	victim, at, spins := alive[r.IntN(len(alive))], 1+r.IntN(60), r.IntN(20_000)
	var step atomic.Int64
	if c.Rank() == victim {
		ranktest.KillSelfAt(&step, at, spins)
	}
	for number := 0; ; number++ {
		step.Add(1)
		if err := flatStep(c, alive, r, number); err != nil {
			return err
		}
	}
}

// flatStep calls one operation among the living ranks.
func flatStep(c *banyan.Comm, alive []int, r *rand.Rand, number int) error {
	kind := []ranktest.CollectiveKind{ranktest.Barrier, ranktest.Allreduce, ranktest.Bcast}[r.IntN(3)]
	o := ranktest.Collective{Kind: kind, Number: number, Root: alive[r.IntN(len(alive))], Size: 1 + r.IntN(4), Typed: true}
	return o.Check(c, false, others(c.Size(), alive...)...)
}

// Real processes, which die by SIGKILL at any moment of a collective that goes through shared memory: those that are left learn of it in the same or the
// next one, whether they poll or sleep, and validate brings it back for them.
func TestFlatWithProcesses(t *testing.T) {
	for name, env := range map[string][]string{"patient": nil, "impatient": {"BANYAN_WAIT_SPINS=0", "BANYAN_WAIT_YIELDS=0"}, "attended": {ranktest.AsyncEnv + "=1"}} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(ranktest.Often(2, 1000)) {
				n := 3 + int(seed*5)%14
				res, out := ranktest.Job(t, launch.Continue, n, "flat", append(append(env, ranktest.Steady...), ranktest.SeedEnv+"="+strconv.FormatUint(seed, 10))...)
				failed := 0
				for _, e := range res.Ends {
					if e.Failed() {
						require.Contains(t, e.String(), "SIGKILL", "seed %d: %s", seed, out)
						failed++
					}
				}
				require.Equal(t, n-2, failed, "seed %d: %s", seed, out)
			}
		})
	}
}
