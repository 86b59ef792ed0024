package intercomms

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// countAllocations checks that calls, blocking, non-blocking and persistent, allocate nothing after a warm-up.
func countAllocations(w *banyan.World) error {
	b, err := join(w.Comm(), 0)
	if err != nil {
		return err
	}
	c, n, root := b.c, b.n(1-b.side), 1
	if b.side == 1 {
		if root = banyan.ProcNull; c.Rank() == 1 {
			root = banyan.Root
		}
	}
	for _, size := range []int{8, 4000} {
		one, two := make([]byte, size), make([]byte, size)
		all, other := make([]byte, n*size), make([]byte, n*size)
		parts, others := slices.Collect(slices.Chunk(all, size)), slices.Collect(slices.Chunk(other, size))
		counts := slices.Repeat([]int{size}, c.Size()) // both sides are of one size
		for kind, call := range []func() error{
			c.Barrier,
			func() error { return c.Bcast(one, root) },
			func() error { return c.Reduce(one, two, xor, root) },
			func() error { return c.Allreduce(one, two, xor) },
			func() error { return c.Gather(one, all, root) },
			func() error { return c.Scatter(all, one, root) },
			func() error { return c.Allgather(one, all) },
			func() error { return c.Alltoall(all, other) },
			func() error { return c.Allgatherv(one, parts) },
			func() error { return c.Gatherv(one, parts, root) },
			func() error { return c.Scatterv(parts, one, root) },
			func() error { return c.Alltoallv(parts, others) },
			func() error { return c.ReduceScatter(all, one, counts, xor) },
			func() error { return c.ReduceScatterBlock(all, one, xor) },
			ended(func() banyan.Request { return c.Ibarrier() }),
			ended(func() banyan.Request { return c.Ibcast(one, root) }),
			ended(func() banyan.Request { return c.Ireduce(one, two, xor, root) }),
			ended(func() banyan.Request { return c.Iallreduce(one, two, xor) }),
			ended(func() banyan.Request { return c.Igather(one, all, root) }),
			ended(func() banyan.Request { return c.Iscatter(all, one, root) }),
			ended(func() banyan.Request { return c.Iallgather(one, all) }),
			ended(func() banyan.Request { return c.Ialltoallv(parts, others) }),
			ended(func() banyan.Request { return c.IreduceScatter(all, one, counts, xor) }),
			again(c.Persistent(func(c *banyan.Comm) banyan.Request { return c.Iallreduce(one, two, xor) })),
			again(c.Persistent(func(c *banyan.Comm) banyan.Request { return c.Igatherv(one, parts, root) })),
		} {
			var failed error
			times := testing.AllocsPerRun(200, func() {
				// Without the barrier senders run ahead, and their messages are kept.
				failed = errors.Join(failed, call(), w.Comm().Barrier())
			})
			if failed != nil || times >= 1 {
				return fmt.Errorf("call %d of %d bytes allocates %v times: %w", kind, size, times, failed)
			}
		}
	}
	return nil
}

func ended(start func() banyan.Request) func() error {
	return func() error { _, err := start().Wait(); return err }
}

func again(p *banyan.Persistent) func() error {
	return func() error {
		p.Start()
		_, err := p.Wait()
		return err
	}
}

func xor(acc, in []byte) {
	for i := range acc {
		acc[i] ^= in[i]
	}
}

func TestNoAllocationBetweenSides(t *testing.T) {
	ranktest.Succeed(t, 4, "two sides, allocs", "BANYAN_DETECT=off", "BANYAN_DEBUG=off")
}
