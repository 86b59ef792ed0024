package collectives

import (
	"fmt"
	"math/rand/v2"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// completedRank has one rank after the other die as soon as a collective has succeeded there, on a communicator
// that has had none before, or some: the others succeed too, also those that are late and know of the death.
// Those that are left go on without it.
func completedRank(w *banyan.World) error {
	c := w.Comm()
	seed, err := ranktest.JobSeed()
	if err != nil {
		return err
	}
	own := rand.New(rand.NewPCG(seed, 100+uint64(c.Rank())))
	all := ways()
	for round := uint64(0); c.Size() > 2; round++ {
		r := rand.New(rand.NewPCG(seed, round))
		over := all[0] // with shared memory
		if r.IntN(2) == 0 {
			over = all[r.IntN(len(all))]
		}
		if err := c.SetDesign(over.design); err != nil {
			return err
		}
		if err := c.SetTree(over.tree); err != nil {
			return err
		}
		kind, victim := ranktest.CollectiveKind(r.IntN(int(ranktest.CollectiveKinds))), r.IntN(c.Size())
		size, before := []int{0, 1, 40, 2500}[r.IntN(4)], r.IntN(4)
		for number := range before + 1 {
			o := issue{ranktest.Collective{Kind: kind, Number: number, Root: r.IntN(c.Size()), Size: size}, r.IntN(3) > 0}
			if number == before && c.Rank() != victim && own.IntN(2) == 0 {
				w.Sleep(time.Duration(own.IntN(3_000_000)))
			}
			u, err := start(o, c)
			if !u.blocks {
				_, err = u.q.Wait()
			}
			if err := u.check(err); err != nil {
				return fmt.Errorf("round %d, %d ranks, %v %s, %d dies after %d: %w", round, c.Size(), over.design, over.tree, victim, before, err)
			}
		}
		if c.Rank() == victim {
			return syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		if c, err = c.Shrink(); err != nil {
			return err
		}
	}
	return nil
}

func TestCompletedCollectivesWithProcesses(t *testing.T) {
	ranktest.JobsWithDeaths(t, "completed", 6, 4, ranktest.JobSeeds(1, 80)...)
}
