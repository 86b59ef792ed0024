package repairs

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

// What other libraries are known to hang in.

// secondShrink has rank 1 die, then rank 2, and shrinks after each; then the even and the odd of those who are left
// make an intercommunicator, which is merged. Everything that is made is made of what is left.
func secondShrink(w *banyan.World) error {
	c := w.Comm()
	talk, err := c.Dup() // which is not revoked
	if err != nil {
		return err
	}
	for victim := 1; victim <= 2; victim++ {
		if w.Comm().Rank() == victim {
			return dieLast(talk, c.Size())
		}
		if err := talk.Send(nil, victim, 9); err != nil {
			return err
		}
		for size := c.Size(); c.Size() == size; {
			var err error
			if c, err = repaired(c); err != nil {
				return err
			}
		}
		d, err := c.Dup() // right after a failure
		if err != nil {
			return err
		}
		if err := errors.Join(d.Barrier(), d.Free()); err != nil {
			return fmt.Errorf("the duplicate after the death of rank %d: %w", victim, err)
		}
	}
	side := c.Rank() % 2
	half, err := c.Split(side, 0)
	if err != nil {
		return err
	}
	inter, err := half.CreateInter(0, c, 1-side, 3)
	if err != nil {
		return err
	}
	merged, err := inter.Merge(side == 1)
	if err != nil {
		return err
	}
	if merged.Size() != c.Size() {
		return fmt.Errorf("merged are %d ranks of %d", merged.Size(), c.Size())
	}
	flag, err := merged.Agree(^uint64(1 << merged.Rank()))
	if err != nil || flag != ^(uint64(1)<<merged.Size()-1) {
		return fmt.Errorf("agree gave %#x: %w", flag, err)
	}
	return errors.Join(merged.Barrier(), merged.Free(), inter.Free(), half.Free(), c.Free(), talk.Free())
}

// dieLast kills this rank when all of so many ranks have come so far.
func dieLast(talk *banyan.Comm, ranks int) error {
	for range ranks - 1 {
		if err := talk.FailureAck(); err != nil {
			return err
		}
		if _, err := talk.Recv(nil, banyan.AnySource, 9); err != nil {
			return err
		}
	}
	return syscall.Kill(os.Getpid(), syscall.SIGKILL)
}

// open-mpi/ompi #13915: agree across nodes; #11724: merge after the second shrink; #11153: dup
// without a failure detector; #11432: agree where nobody tells of the failure.
func TestTroublesOfOthers(t *testing.T) {
	const n = 6
	for name, env := range ranktest.JoinedBy(joined(n)) {
		for _, detect := range []string{"on", "off"} {
			t.Run(name+", detector "+detect, func(t *testing.T) {
				res, out := ranktest.Job(t, launch.Continue, n, "second shrink", env, "BANYAN_DETECT="+detect)
				for _, end := range res.Ends {
					if end.Rank == 1 || end.Rank == 2 {
						require.Equal(t, syscall.SIGKILL, end.Signal, "%v\n%s", end, out)
					} else {
						require.False(t, end.Failed(), "%v\n%s", end, out)
					}
				}
			})
		}
	}
}
