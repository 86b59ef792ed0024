package collectives

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/launch"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// silentRank: ranks 1 and 2 are stopped. The others complete broadcasts of all lengths before they detect it, and a
// barrier when the two count as failed.
func silentRank(w *banyan.World) error {
	c := w.Comm()
	pids := make([]int64, c.Size())
	if err := errors.Join(banyan.Allgather(c, []int64{int64(os.Getpid())}, pids), c.SetDesign(banyan.Corrected), c.Barrier()); err != nil {
		return err
	}
	if rank := c.Rank(); rank == 1 || rank == 2 {
		if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
			return err
		}
		_, err := c.Recv(nil, 0, 0) // it is killed meanwhile
		return errors.Join(err, errors.New("it has been stopped"))
	}
	if err := errors.Join(ranktest.AwaitStop(int(pids[1])), ranktest.AwaitStop(int(pids[2]))); err != nil {
		return err
	}
	for i, size := range []int{8, 5000, 200_000} {
		p := correctedProgram{ops: []correctedOp{{blocks: true, root: 3 * i % 6, size: size}}}
		if lost, err := p.run(c, func(int) {}); err != nil || lost[0] {
			return fmt.Errorf("of %d bytes: lost %v, %w", size, lost, err)
		}
		if known := c.GetFailed().Size(); known > 0 {
			return fmt.Errorf("a broadcast of %d bytes took until the detection", size)
		}
	}
	if err := c.Barrier(); err != nil || c.GetFailed().Size() != 2 {
		return fmt.Errorf("barrier: %w, %d failures are known", err, c.GetFailed().Size())
	}
	return nil
}

// Real ranks fall silent, which takes seconds to detect, and keep no broadcast.
func TestCorrectedBesideSilentRanks(t *testing.T) {
	t.Parallel() // it waits for the detector
	for name, env := range ranktest.JoinedBy(ranktest.ByFabric) {
		t.Run(name, func(t *testing.T) {
			res, out := ranktest.Job(t, launch.Continue, 6, "silent", append(slices.Clone(env), ranktest.Steady...)...)
			for rank, e := range res.Ends {
				require.Equal(t, rank == 1 || rank == 2, e.Failed(), out)
			}
		})
	}
}

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
