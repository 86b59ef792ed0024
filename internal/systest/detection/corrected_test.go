package detection

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/launch"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// silentRanks: ranks 1 and 2 are stopped. The others complete broadcasts of all lengths before they detect it, and a
// barrier when the two count as failed.
func silentRanks(w *banyan.World) error {
	c := w.Comm()
	pids := make([]int64, c.Size())
	if err := errors.Join(banyan.Allgather(c, []int64{int64(os.Getpid())}, pids), c.SetDesign(banyan.Corrected), c.Barrier()); err != nil {
		return err
	}
	if rank := c.Rank(); rank == 1 || rank == 2 {
		if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
			return err
		}
		_, err := c.Recv(nil, 0, 0) // it is killed meanwhile
		return errors.Join(err, errors.New("it has been stopped"))
	}
	if err := errors.Join(ranktest.AwaitStop(int(pids[1])), ranktest.AwaitStop(int(pids[2]))); err != nil {
		return err
	}
	for i, size := range []int{8, 5000, 200_000} {
		root := 3 * i % 6
		buf := ranktest.Pattern(c.Rank(), size)
		if err := errors.Join(c.Bcast(buf, root), ranktest.CheckEqual(buf, ranktest.Pattern(root, size))); err != nil {
			return fmt.Errorf("of %d bytes: %w", size, err)
		}
		if known := c.GetFailed().Size(); known > 0 {
			return fmt.Errorf("a broadcast of %d bytes took until the detection", size)
		}
	}
	if err := c.Barrier(); err != nil || c.GetFailed().Size() != 2 {
		return fmt.Errorf("barrier: %w, %d failures are known", err, c.GetFailed().Size())
	}
	return nil
}

// Real ranks fall silent, which takes seconds to detect, and keep no broadcast of the corrected design.
func TestCorrectedBesideSilentRanks(t *testing.T) {
	t.Parallel()
	for name, env := range ranktest.JoinedBy(ranktest.ByFabric) {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // they wait most of the time
			res, out := ranktest.Job(t, launch.Continue, 6, "silent", append(slices.Clone(env), ranktest.Steady...)...)
			for rank, e := range res.Ends {
				require.Equal(t, rank == 1 || rank == 2, e.Failed(), out)
			}
		})
	}
}
