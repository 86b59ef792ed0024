package collectives

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// correctedRank runs programs while ranks kill themselves. The survivors of each have the same outcomes.
func correctedRank(w *banyan.World) error {
	c := w.Comm()
	seed, err := ranktest.JobSeed()
	if err != nil {
		return err
	}
	for round := uint64(0); c.Size() > 2; round++ {
		p := drawCorrected(seed<<8|round, c.Size())
		r := rand.New(rand.NewPCG(seed, 300+round))
		if err := c.SetDesign(banyan.Corrected); err != nil {
			return err
		}
		victim, at := r.IntN(c.Size()), r.IntN(len(p.ops))
		var step atomic.Int64
		step.Store(-1)
		if c.Rank() == victim {
			ranktest.KillSelfAt(&step, at, r.IntN(200_000))
		}
		lost, err := p.run(c, func(i int) { step.Store(int64(i)) })
		if err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
		for c.Rank() == victim {
			w.Sleep(time.Second) // it dies
		}
		for c.GetFailed().Size() == 0 {
			w.Sleep(time.Millisecond)
		}
		if c, err = c.Shrink(); err != nil {
			return err
		}
		mine := make([]uint64, len(lost))
		for i, is := range lost {
			if is {
				mine[i] = 1
			}
		}
		low, high := slices.Clone(mine), slices.Clone(mine)
		if err := errors.Join(banyan.Allreduce(c, mine, low, banyan.Min), banyan.Allreduce(c, mine, high, banyan.Max)); err != nil {
			return err
		}
		if !slices.Equal(low, high) {
			return fmt.Errorf("round %d: lost at some: %v, at all: %v", round, high, low)
		}
	}
	return nil
}

// Real ranks die by SIGKILL in programs of barriers and broadcasts.
func TestCorrectedWithProcesses(t *testing.T) {
	ranktest.JobsWithDeaths(t, "corrected", 6, 4, ranktest.JobSeeds(2, 100)...)
}
