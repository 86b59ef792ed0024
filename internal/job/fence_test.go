package job

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
)

// strict is the bootstrap of a rank whose launcher ends a fence when all ranks have come, failed ones
// too, as Hydra and Slurm do.
type strict struct {
	simulated
	come *int
}

func (s strict) SparesDead() bool { return false }

func (s strict) Fence(ctx context.Context) error {
	for *s.come++; *s.come < s.size; {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		s.proc.Host().Pause(100_000)
	}
	return nil
}

// A rank that knows of a failure waits in Finalize for the living ranks, with any behaviour of the
// launcher. No rank waits for a failed one. If all live the launcher's fence is enough.
func TestFinalizeUnderStrictLauncher(t *testing.T) {
	waited := 0
	for seed := uint64(1); seed <= 60; seed++ {
		r := rand.New(rand.NewPCG(seed, 12))
		n := 2 + r.IntN(8)
		machine, err := sim.New(func() sim.Config {
			c := sim.DefaultConfig(n)
			c.Seed, c.MaxTime = seed, fabric.Time(time.Minute)
			return c
		}())
		require.NoError(t, err)
		var come, killed int
		called, left, errs := make([]time.Duration, n), make([]time.Duration, n), make([]error, n)
		for rank := range n {
			delay := time.Duration(r.IntN(2000)) * time.Millisecond
			c, err := (&Options{Detection: &DetectionTimes{200 * time.Millisecond, time.Second}}).configureSimulated()
			require.NoError(t, err)
			require.NoError(t, machine.Spawn(proc.ID(rank), func(p *sim.Proc) {
				boot := strict{simulated{&simulatedJob{size: n, perNode: n, errs: errs}, rank, p}, &come}
				j, err := newJob(boot, progress.Config{Host: p.Host(), Others: []fabric.Provider{p.Provider()}}, c)
				if err != nil {
					errs[rank] = err
					return
				}
				j.Sleep(delay)
				called[rank] = j.Now()
				errs[rank] = j.Finalize(func() error { return nil }, func() {})
				left[rank] = j.Now()
			}))
		}
		for _, rank := range r.Perm(n)[:r.IntN(n)] {
			killed++
			require.NoError(t, machine.Kill(proc.ID(rank), fabric.Time(r.Int64N(3_000_000_000))))
		}
		story := fmt.Sprintf("seed %d: %d ranks, %d killed", seed, n, killed)
		require.NoError(t, errors.Join(append(errs, machine.Run())...), story)
		var last time.Duration
		for rank := range n {
			if end, _ := machine.Ended(proc.ID(rank)); end.Kind == proc.Departed {
				last = max(last, called[rank])
			}
		}
		for rank := range n {
			if end, _ := machine.Ended(proc.ID(rank)); end.Kind == proc.Departed {
				require.GreaterOrEqual(t, left[rank], last, "rank %d: %s", rank, story)
				waited++
			}
		}
	}
	require.NotZero(t, waited)
}

// The detector of a rank that waits in a fence connects to new neighbours, for which it asks the
// launcher. Were the launcher not to answer, living ranks would count as failed.
func TestLauncherAnswersInFence(t *testing.T) {
	seeds := uint64(200)
	if testing.Short() {
		seeds = 30
	}
	found := 0
	for seed := range seeds {
		for _, deaf := range []bool{false, true} {
			err := naps(seed, deaf)
			if !deaf {
				require.NoError(t, err, "seed %d", seed)
			} else if err != nil {
				require.ErrorContains(t, err, "ends itself")
				found++
			}
		}
	}
	require.NotZero(t, found, "the mutant is not found")
}

// naps simulates a job in which some ranks sleep, and many are killed soon after the start.
func naps(seed uint64, deaf bool) error {
	r := rand.New(rand.NewPCG(seed, 3))
	n := 8 + r.IntN(8)
	sleeps := make([]time.Duration, n)
	for range 1 + r.IntN(2) {
		sleeps[r.IntN(n)] = time.Duration(r.IntN(6000)) * time.Millisecond
	}
	kills := r.Perm(n)[:n/2+r.IntN(n/4)]
	s := Simulation{Seed: seed, Launcher: &SimulatedLauncher{Latency: 1, Deaf: deaf}}
	s.Faults = func(m *sim.Sim) (err error) {
		for _, rank := range kills {
			err = errors.Join(err, m.Kill(proc.ID(rank), fabric.Time(r.Int64N(100_000))))
		}
		return err
	}
	s.Configure = func(c *sim.Config) { c.Topology.ProcsPerNode, c.LossAtDeath = 3, 0.5 }
	o := &Options{Detection: &DetectionTimes{200 * time.Millisecond, time.Second}}
	return Simulate(n, s, o, func(j *Job) error {
		j.Sleep(sleeps[j.Rank()])
		return j.Finalize(func() error { return nil }, func() {})
	})
}
