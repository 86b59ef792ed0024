package collectives

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/launch"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// rootThatLeaves broadcasts a few times from rank 0, which only sends, and dies after the last. The
// others, which come late, must succeed as rank 0 has.
func rootThatLeaves(size int, bcast func(c *banyan.Comm, buf []byte) error) func(w *banyan.World) error {
	return func(w *banyan.World) error {
		c := w.Comm()
		if err := c.Barrier(); err != nil { // all are connected
			return err
		}
		if c.Rank() != 0 {
			w.Sleep(20 * time.Millisecond)
		}
		for i := range 4 {
			if err := bcast(c, make([]byte, size)); err != nil {
				return fmt.Errorf("broadcast %d, which rank 0 has completed: %w", i, err)
			}
		}
		if c.Rank() == 0 {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // cannot fail
		}
		return nil
	}
}

func blockingBcast(c *banyan.Comm, buf []byte) error { return c.Bcast(buf, 0) }

func nonblockingBcast(c *banyan.Comm, buf []byte) error {
	_, err := c.Ibcast(buf, 0).Wait()
	return err
}

// A collective that has succeeded has sent all that the others need, also over providers that keep short
// frames back, and those whose sockets do not take all of a long one at once.
func TestRootThatLeavesHasSent(t *testing.T) {
	for _, fabric := range []string{"tcp", "unix", "shm"} {
		for _, role := range []string{"root that leaves", "root that leaves long", "root that leaves long later"} {
			for range ranktest.Scaled(5, 1) {
				res, out := ranktest.Job(t, launch.Continue, 2, role, "BANYAN_FABRIC="+fabric, "BANYAN_PROFILE=ulfm")
				for _, e := range res.Ends[1:] {
					require.False(t, e.Failed(), "%s, %s: %v\n%s", role, fabric, e, out)
				}
			}
		}
	}
}
