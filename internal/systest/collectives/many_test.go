package collectives

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/launch"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// manyRank checks the collectives that use shared memory among more ranks than a group of it has, at
// lengths on both sides of the memory's limit; then ranks of both groups die, and it checks them again
// among the others.
func manyRank(w *banyan.World) error {
	c := w.Comm()
	if err := manyRounds(c, nil); err != nil {
		return err
	}
	victims := []int{1, 64, c.Size() - 2}
	for i, rank := range victims {
		if c.Rank() == rank && i > 0 {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // cannot fail
		}
	}
	err := c.Barrier() // in which one more dies
	if c.Rank() == victims[0] {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // cannot fail
	}
	if !errors.Is(err, banyan.ErrProcFailed) {
		return fmt.Errorf("barrier with dead ranks: %w", err)
	}
	for {
		failed, err := c.Validate()
		if err != nil {
			return err
		}
		if failed.Size() == len(victims) {
			break
		}
	}
	return manyRounds(c, victims)
}

// manyRounds has groups finish in different orders, and uses each place of the memory several times.
func manyRounds(c *banyan.Comm, failed []int) error {
	for number := range 40 {
		for _, kind := range []ranktest.CollectiveKind{ranktest.Barrier, ranktest.Allreduce, ranktest.Bcast, ranktest.Allgather} {
			if kind == ranktest.Allgather && number%8 > 0 {
				continue
			}
			o := ranktest.Collective{
				Kind: kind, Number: number, Root: number * 7 % c.Size(),
				Size: []int{1, 0, 3, 4, 32, 33}[number%6],
			}
			if err := o.Check(c, false, failed...); err != nil {
				return err
			}
		}
	}
	return nil
}

// More ranks on a machine than one of them looks at one by one.
func TestManyRanksShareMemory(t *testing.T) {
	n := 67
	if ranktest.Long() {
		n = 130
	}
	res, out := ranktest.Job(t, launch.Continue, n, "many")
	killed := 0
	for _, e := range res.Ends {
		if e.Failed() {
			require.Contains(t, e.String(), "SIGKILL", out)
			killed++
		}
	}
	require.Equal(t, 3, killed, out)
}
