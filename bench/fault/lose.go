package fault

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan"
)

// killSelf ends this process as kill -9 does.
func killSelf() error { return unix.Kill(os.Getpid(), unix.SIGKILL) }

// errAlive is the error of a victim that did not die.
var errAlive = errors.New("a victim that was to be killed is alive")

// loseRanks has the victims among the ranks of c die by their call of die. The others acknowledge the
// failures on c until all are acknowledged everywhere. loseRanks returns at the survivors, with a
// communicator of them that has no failure.
func loseRanks(c *banyan.Comm, victims []int, die func() error) (*banyan.Comm, error) {
	if _, err := c.Agree(1); err != nil { // all have started
		return nil, err
	}
	if slices.Contains(victims, c.Rank()) {
		if err := die(); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("rank %d: %w", c.Rank(), errAlive)
	}
	for known := false; !known; {
		acked, err := c.AckFailed(c.Size())
		if err != nil {
			return nil, err
		}
		flag := uint64(1)
		if acked < len(victims) {
			flag = 0
		}
		flag, err = c.Agree(flag)
		if err != nil && !errors.Is(err, banyan.ErrProcFailed) {
			return nil, err
		}
		known = err == nil && flag == 1
	}
	group, err := c.Group().Exclude(victims...)
	if err != nil {
		return nil, err
	}
	return c.CreateGroup(group, 0)
}
