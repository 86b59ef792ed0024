package recovery

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/bench/ranks"
)

// revocation measures a revocation, and then as many barriers as a block has calls.
func (s *side) revocation(number int) error {
	took, err := Revocation(s.living, number%s.living.Size(), s.o.Settle)
	if err != nil {
		return err
	}
	if number > 0 {
		s.calls.add(int64(took))
	}
	barrier, err := s.block(operation{do: s.living.Barrier}, s.base, number > 0)
	if err != nil {
		return err
	}
	return s.note(number, took, barrier)
}

// quiet is longer than it takes all to leave a communicator that has been revoked: who has left leaves the cores to those who have not.
const quiet = 2 * time.Millisecond

// Revocation duplicates a communicator of one machine, has one rank revoke the duplicate when all others have waited for a while in
// its barrier, and gives at each rank the time from the call to the return of the last of them.
func Revocation(living *banyan.Comm, revoker int, settle time.Duration) (time.Duration, error) {
	c, err := living.Dup()
	if err != nil {
		return 0, err
	}
	if err := c.Barrier(); err != nil { // all have it, and are connected
		return 0, err
	}
	if err := living.Barrier(); err != nil { // all have left it
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

// leave gives the time of the call at the revoker, and that of the return from the barrier at the others. Who has left looks at what its barrier
// has ended with when all have.
func leave(c *banyan.Comm, revoker int, settle time.Duration) (int64, error) {
	if c.Rank() == revoker {
		ranks.Settle(settle)
		at, err := ranks.Clock()
		err = cmp.Or(err, c.Revoke())
		ranks.Settle(quiet)
		return at, err
	}
	err := c.Barrier()
	at, unread := ranks.Clock()
	ranks.Settle(quiet)
	if !errors.Is(err, banyan.ErrRevoked) {
		return 0, fmt.Errorf("rank %d's barrier ended with %w, want that it is revoked", c.Rank(), err)
	}
	return at, unread
}
