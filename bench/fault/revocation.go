package fault

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/banyan-hpc/banyan"
)

// revocation measures a revocation, and then a block of barriers.
func (r *recoveryRank) revocation(number int) error {
	if err := stopped(r.o.Budget, r.living); err != nil {
		return err
	}
	took, err := Revocation(r.living, number%r.living.Size(), r.o.Settle)
	if err != nil {
		return err
	}
	if number > 0 {
		r.calls.Add(took)
	}
	barrier, err := r.block(call{do: r.living.Barrier}, r.base, number > 0)
	if err != nil {
		return err
	}
	return r.keep(number, took, barrier)
}

// idleAfter is longer than all ranks take to leave a revoked communicator. A rank that has left sleeps
// so long, and leaves the cores to the others.
const idleAfter = 2 * time.Millisecond

// Revocation duplicates a communicator of one machine. One rank revokes the duplicate after all others
// have waited in its barrier for settle. Revocation returns, at each rank, the time from the call of
// Revoke to the return of the last barrier.
func Revocation(living *banyan.Comm, revoker int, settle time.Duration) (time.Duration, error) {
	c, err := living.Dup()
	if err != nil {
		return 0, err
	}
	if err := c.Barrier(); err != nil { // makes the connections
		return 0, err
	}
	if err := living.Barrier(); err != nil { // all have left the other barrier
		return 0, err
	}
	at, err := leave(c, revoker, settle)
	if err != nil {
		return 0, err
	}
	all := make([]int64, c.Size())
	if err := banyan.Allgather(living, []int64{at}, all); err != nil {
		return 0, err
	}
	return time.Duration(slices.Max(all) - all[revoker]), c.Free()
}

// leave returns the time of the call at the revoker, and the time of the return from the barrier at
// the others. They examine its error after all have left.
func leave(c *banyan.Comm, revoker int, settle time.Duration) (int64, error) {
	if c.Rank() == revoker {
		sleepInKernel(settle)
		at, err := fastClock()
		err = cmp.Or(err, c.Revoke())
		sleepInKernel(idleAfter)
		return at, err
	}
	err := c.Barrier()
	at, clockErr := fastClock()
	sleepInKernel(idleAfter)
	if !errors.Is(err, banyan.ErrRevoked) {
		return 0, fmt.Errorf("rank %d's barrier ended with %w, want that it is revoked", c.Rank(), err)
	}
	return at, clockErr
}
