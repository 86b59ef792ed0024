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

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// uniformRank calls uniform operations, one kind after the other, until one fails. Ranks kill themselves at a
// random moment. Then all shrink, and tell each other how many operations each has succeeded with: the same number.
func uniformRank(w *banyan.World) error {
	c := w.Comm()
	seed, err := ranktest.JobSeed()
	if err != nil {
		return err
	}
	if err := c.SetUniformity(banyan.UniformCollectives); err != nil {
		return err
	}
	odd := c.Rank() % 2
	side, err := c.Split(odd, 0)
	if err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(seed, 1))
	victims := r.Perm(c.Size())[:1+seed%2]
	at := 8 + r.IntN(24)
	var step atomic.Int64
	if slices.Contains(victims, c.Rank()) {
		ranktest.KillSelfAt(&step, at, r.IntN(40_000))
	}
	free := func(d *banyan.Comm, err error) error {
		if d != nil {
			err = errors.Join(err, d.Free())
		}
		return err
	}
	ops := []func() error{
		c.Barrier,
		func() error { return c.Bcast(make([]byte, 5_000), 1) },
		func() error { return free(c.Dup()) },
		func() error { return banyan.Allreduce(c, []int{1}, banyan.Sum) },
		func() error { return free(c.Split(odd, 0)) },
		func() error { return banyan.Allgather(c, []int{1}, make([]int, c.Size())) },
		func() error {
			inter, err := side.CreateInter(0, c, 1-odd, 9)
			if err != nil {
				return err
			}
			return errors.Join(free(inter.Merge(false)), inter.Free())
		},
		func() error { return banyan.Reduce(c, []int{1}, banyan.Sum, 2) },
	}
	done := 0
	for ; err == nil; done++ {
		step.Store(int64(done))
		err = ops[done%len(ops)]()
	}
	if !errors.Is(err, banyan.ErrProcFailed) {
		return fmt.Errorf("operation %d: %w", done, err)
	}
	left, err := c.Shrink()
	if err != nil {
		return err
	}
	most, least := []int{done}, []int{done}
	if err := errors.Join(banyan.Allreduce(left, most, banyan.Max), banyan.Allreduce(left, least, banyan.Min)); err != nil {
		if errors.Is(err, banyan.ErrProcFailed) && len(victims) > 1 {
			return nil // the second died later
		}
		return err
	}
	if most[0] != least[0] {
		return fmt.Errorf("some ranks succeeded with %d operations, others with %d; here %d", most[0], least[0], done)
	}
	return nil
}

func TestUniformWithProcesses(t *testing.T) {
	ranktest.JobsWithDeaths(t, "uniform", 6, 2, ranktest.JobSeeds(2, 40)...)
}

// rangedRank has the last rank die. The others do not talk to it and learn of it by the range of errors alone.
func rangedRank(w *banyan.World) error {
	c := w.Comm()
	if err := errors.Join(c.SetErrorRange(banyan.ErrorsGroup), c.Barrier()); err != nil {
		return err
	}
	last := c.Size() - 1
	if c.Rank() != last {
		if err := c.Send(nil, last, 5); err != nil {
			return err
		}
	} else {
		for rank := range last { // all have left the barrier
			if _, err := c.Recv(nil, rank, 5); err != nil {
				return err
			}
		}
		return syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	next := (c.Rank() + 1) % last
	out, in := c.Isend(make([]byte, 4<<20), next, 3), c.Irecv(make([]byte, 8), (next+1)%last, 4)
	_, e1 := out.Wait()
	_, e2 := in.Wait()
	// A send may have ended before: who has been revoked drops what was announced, and says so.
	if e1 != nil && !errors.Is(e1, banyan.ErrRevoked) || !errors.Is(e2, banyan.ErrRevoked) {
		return fmt.Errorf("send: %w, recv: %w", e1, e2)
	}
	left, err := c.Shrink()
	if err != nil {
		return err
	}
	if c.GetFailed().Size() == 0 { // before, another rank's word may have been the first
		return errors.New("revoked, shrunk, and nobody has failed")
	}
	return left.Barrier()
}

func TestErrorRangeWithProcesses(t *testing.T) { ranktest.JobsWithDeaths(t, "ranged", 5, 1, 1) }
