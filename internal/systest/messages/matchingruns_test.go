package messages

import (
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// operations is the number of operations of a test, over all ranks.
func operations(long, usual int) int {
	if os.Getenv("BANYAN_LONG") != "" {
		return long
	}
	if testing.Short() {
		return usual / 4
	}
	return usual
}

// Matching in the simulator.
func TestMatchingAgainstTheRules(t *testing.T) {
	const seeds = 8
	total := operations(1_000_000, 60_000)
	var done atomic.Int64
	for seed := range uint64(seeds) {
		ranks := []int{1, 2, 3, 7, 16}[seed%5]
		require.NoError(t, banyan.Simulate(ranks, banyan.Simulation{
			Seed: seed,
			Configure: func(c *sim.Config) {
				c.Get = seed%2 == 0
				if seed%3 == 1 {
					c.Fetch, c.MoveLoss = true, 0.05
				}
				c.Topology.ProcsPerNode = 4
				c.Spikes = sim.Spikes{Chance: 0.02, Min: sim.Microsecond, Max: 200 * sim.Microsecond}
			},
			Options: []banyan.Option{banyan.WithUnexpectedLimit(int(seed%3) * 20_000)},
		}, func(w *banyan.World) error {
			n, err := compare(w, seed, total/seeds/ranks)
			done.Add(int64(n))
			return err
		}), "seed %d", seed)
	}
	t.Logf("%d operations", done.Load())
	require.GreaterOrEqual(t, done.Load(), int64(total))
}

// Ranks that take no part die one after the other, so that wildcard receives are pending,
// acknowledged, matched and cancelled in every order.
func TestMatchingWithDeathsAgainstTheRules(t *testing.T) {
	const living, victims = 4, 3
	total := operations(500_000, 40_000)
	var pending, acked atomic.Int64
	for seed := range uint64(8) {
		require.NoError(t, banyan.Simulate(living+victims, banyan.Simulation{
			Seed: seed,
			Configure: func(c *sim.Config) {
				c.Get = seed%2 == 0
				if seed%3 == 1 {
					c.Fetch, c.MoveLoss = true, 0.05
				}
				c.Spikes = sim.Spikes{Chance: 0.02, Min: sim.Microsecond, Max: 200 * sim.Microsecond}
			},
			Faults: func(s *sim.Sim) error {
				for i := range victims {
					if err := s.Kill(proc.ID(living+i),
						fabric.Time(time.Microsecond)*fabric.Time(200+int(seed)*50+400*i)); err != nil {
						return err
					}
				}
				return nil
			},
		}, func(w *banyan.World) error {
			c := w.Comm()
			if c.Rank() >= living {
				_, _ = c.Recv(nil, 0, 1<<20) // never sent; rank 0 may leave first
				return nil
			}
			for i := range victims {
				c.Irecv(nil, living+i, 1<<20) // so that this rank notices the death
			}
			m, err := newMatcher(c, seed, living)
			if err != nil {
				return err
			}
			_, err = m.run(total / 8 / living)
			pending.Add(int64(m.pending))
			acked.Add(int64(m.acked))
			return err
		}), "seed %d", seed)
	}
	t.Logf("%d times pending, %d acknowledgements", pending.Load(), acked.Load())
	require.GreaterOrEqual(t, pending.Load(), int64(100))
	require.GreaterOrEqual(t, acked.Load(), int64(ranktest.Scaled(8*living, living)))
}

// opsEnv is the number of operations of a rank.
const opsEnv = "BANYAN_TEST_OPS"

// Matching with processes, over shared memory and sockets.
func TestMatchingAgainstTheRulesWithProcesses(t *testing.T) {
	n := operations(160_000, 10_000)
	for _, env := range [][]string{
		nil, {ranktest.NoCopyEnv + "=1"}, {ranktest.EagerEnv + "=1"},
		{"BANYAN_FABRIC=tcp"}, {"BANYAN_FABRIC=unix", ranktest.EagerEnv + "=1"},
		{ranktest.Nodes("a;a;b;b"), "BANYAN_FABRIC=shm,tcp"},
	} {
		ranktest.Succeed(t, 4, "matching", append(env, opsEnv+"="+strconv.Itoa(n/4))...)
	}
}

func matching(w *banyan.World) error {
	n, err := strconv.Atoi(os.Getenv(opsEnv))
	if err != nil {
		return err
	}
	_, err = compare(w, uint64(n), n)
	return err
}
