package ranks

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan"
)

// KillSelf ends this process as kill -9 would: nobody is told.
func KillSelf() error { return unix.Kill(os.Getpid(), unix.SIGKILL) }

// Lose has the dead among the ranks of c die, by their call of die, and the others acknowledge on c, until nothing is new, that they are gone. It returns
// at those who live, with a communicator of them that knows nothing of any failure. Who has called die, and lives, gets its error or [ErrAlive].
func Lose(c *banyan.Comm, dead []int, die func() error) (*banyan.Comm, error) {
	if _, err := c.Agree(1); err != nil { // all are there
		return nil, err
	}
	if slices.Contains(dead, c.Rank()) {
		if err := die(); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("rank %d: %w", c.Rank(), ErrAlive)
	}
	for known := false; !known; {
		acked, err := c.AckFailed(c.Size())
		if err != nil {
			return nil, err
		}
		flag := uint64(1)
		if acked < len(dead) {
			flag = 0
		}
		flag, err = c.Agree(flag)
		if err != nil && !errors.Is(err, banyan.ErrProcFailed) {
			return nil, err
		}
		known = err == nil && flag == 1
	}
	group, err := c.Group().Exclude(dead...)
	if err != nil {
		return nil, err
	}
	return c.CreateGroup(group, 0)
}

// ErrAlive is the error of a rank that was to die and did not.
var ErrAlive = errors.New("it was to die, and lives")
