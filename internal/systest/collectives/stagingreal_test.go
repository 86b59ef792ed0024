package collectives

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// stagedRank has one rank after the other kill itself inside a collective that writes, until two are left.
func stagedRank(w *banyan.World) error {
	c := w.Comm()
	seed, err := ranktest.JobSeed()
	if err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(seed, 2)) // all draw the same, as all succeed as often
	for err = c.SetUniformity(banyan.UniformCollectives); err == nil && c.Size() > 2; {
		c, err = lose(c, r)
	}
	return err
}

// lose calls collectives of random kinds and lengths until one fails, as a rank has killed itself, and gives the communicator of those
// who are left. It looks at each buffer as soon as the operation ends, and after an error again when all that could still be under
// way has ended.
func lose(c *banyan.Comm, r *rand.Rand) (*banyan.Comm, error) {
	victim, at, spins := r.IntN(c.Size()), 2+r.IntN(12), r.IntN(60_000)
	var step atomic.Int64
	if c.Rank() == victim {
		ranktest.KillSelfAt(&step, at, spins)
	}
	all := writings()
	for {
		step.Add(1)
		o := all[r.IntN(len(all))]
		size := []int{1, 38, 2500, 1 << 17}[r.IntN(4)]
		buf, _ := o.on(c, size).Buffers(c)
		err := o.on(c, size).Do(c, buf, o.nonblocking)
		if wrong := o.check(c, buf, size, err); wrong != nil {
			return nil, wrong
		}
		if err == nil {
			continue
		}
		if !errors.Is(err, banyan.ErrProcFailed) {
			return nil, err
		}
		left, err := c.Shrink()
		if err == nil {
			err = left.Barrier()
		}
		if wrong := o.check(c, buf, size, errLater); wrong != nil {
			return nil, wrong
		}
		return left, err
	}
}

var errLater = errors.New("some time ago")

func TestUniformBuffersWithProcesses(t *testing.T) {
	ranktest.JobsWithDeaths(t, "staged", 6, 4, ranktest.JobSeeds(1, 40)...)
}

// Collectives allocate nothing once the like of them has run. The detector is off: it allocates a little in each period.
func TestNoAllocationPerCollective(t *testing.T) {
	ranktest.Succeed(t, 3, "collective allocs", "BANYAN_DETECT=off")
	ranktest.Succeed(t, 3, "collective allocs", ranktest.UnawareEnv+"=1", "BANYAN_DETECT=off")
}

// collectiveAllocs counts what the process allocates over many collectives of each kind, after a warm-up.
func collectiveAllocs(w *banyan.World) error {
	c := w.Comm()
	for _, size := range []int{1, 500, 300_000} {
		buf, all := make([]int64, size), make([]int64, size*c.Size())
		calls := []func() error{
			c.Barrier,
			func() error { return banyan.Bcast(c, buf, 1) },
			func() error { return banyan.Reduce(c, buf, banyan.Sum, 2) },
			func() error { return banyan.Allreduce(c, buf, banyan.Sum) },
			func() error { return c.AllreduceBytes(banyan.Bytes(buf), xor) },
			func() error { return banyan.Allgather(c, buf, all) },
		}
		rounds, most := 100, uint64(50)
		if size > 10_000 {
			rounds, most = 10, 15 // the collector may take what is large
		}
		for i, call := range calls {
			var before, after runtime.MemStats
			for round := range 2 * rounds {
				if round == rounds {
					runtime.ReadMemStats(&before)
				}
				// Or a root would run ahead, and its messages be kept until the others are there.
				if err := cmp.Or(call(), c.Barrier()); err != nil {
					return err
				}
			}
			runtime.ReadMemStats(&after)
			if n := after.Mallocs - before.Mallocs; n > most {
				return fmt.Errorf("rank %d: %d allocations in %d calls of collective %d with %d numbers", c.Rank(), n, rounds, i, size)
			}
		}
	}
	return nil
}
