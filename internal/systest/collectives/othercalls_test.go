package collectives

import (
	"errors"
	"fmt"
	"testing"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

func init() { roles["other calls"] = otherCalls }

// callsInMemory are collectives that go through shared memory, by name.
var callsInMemory = []struct {
	name string
	do   func(c *banyan.Comm, buf, all []int64) error
}{
	{"Barrier", func(c *banyan.Comm, _, _ []int64) error { return c.Barrier() }},
	{"Allreduce", func(c *banyan.Comm, buf, _ []int64) error { return banyan.Allreduce(c, buf, buf, banyan.Sum) }},
	{"Allgather", func(c *banyan.Comm, buf, all []int64) error { return banyan.Allgather(c, buf, all) }},
	{"Alltoall", func(c *banyan.Comm, _, all []int64) error { return banyan.Alltoall(c, all, make([]int64, len(all))) }},
	{"Bcast", func(c *banyan.Comm, buf, _ []int64) error { return banyan.Bcast(c, buf, 0) }},
}

// otherCalls has one rank call another collective than the others. Each rank that waits for all gets an error, or each that
// waits for a root which has called another one, and the next collectives work.
func otherCalls(w *banyan.World) error {
	c := w.Comm()
	for range 3 { // until the ranks know that they share memory
		if err := c.Barrier(); err != nil {
			return err
		}
	}
	for number := range len(callsInMemory) * len(callsInMemory) * c.Size() {
		odd, a, b := number%c.Size(), number/c.Size()%len(callsInMemory), number/c.Size()/len(callsInMemory)
		calls := func(rank int) int {
			if rank == odd {
				return b
			}
			return a
		}
		const bcast = 4
		mine := calls(c.Rank())
		err := callsInMemory[mine].do(c, []int64{1}, make([]int64, c.Size()))
		wrong := a != b && (mine != bcast || calls(0) != bcast)
		if wrong != errors.Is(err, banyan.ErrArgument) || err != nil && !wrong {
			return fmt.Errorf("rank %d calls %s and the others %s: %w", odd, callsInMemory[b].name, callsInMemory[a].name, err)
		}
		for range 2 {
			sum := []int64{int64(number + c.Rank())}
			if err := banyan.Allreduce(c, sum, sum, banyan.Sum); err != nil {
				return err
			}
			if want := int64(c.Size()*number + c.Size()*(c.Size()-1)/2); sum[0] != want {
				return fmt.Errorf("after rank %d has called %s and the others %s: the sum is %d, want %d",
					odd, callsInMemory[b].name, callsInMemory[a].name, sum[0], want)
			}
		}
	}
	return nil
}

func TestOtherCallsInMemory(t *testing.T) {
	for _, n := range []int{2, 3, 7} {
		ranktest.Succeed(t, n, "other calls", "BANYAN_FABRIC=shm")
	}
}
