package collectives

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
)

// Ranks that name different roots get an error where a message shows it, and no rank has another one's data for
// its root's.
func TestDifferentRoots(t *testing.T) {
	for name, op := range map[string]func(c *banyan.Comm, root int) error{
		"bcast":   func(c *banyan.Comm, root int) error { return c.Bcast(make([]byte, 8), root) },
		"scatter": func(c *banyan.Comm, root int) error { return c.ScatterBytes(make([]byte, 16), make([]byte, 8), root) },
		"ibcast":  func(c *banyan.Comm, root int) error { _, err := c.IBcast(make([]byte, 8), root).Wait(); return err },
		"iscatter": func(c *banyan.Comm, root int) error {
			_, err := c.IScatterBytes(make([]byte, 16), make([]byte, 8), root).Wait()
			return err
		},
	} {
		for late := range 2 {
			require.NoError(t, banyan.Simulate(2, banyan.Simulation{}, func(w *banyan.World) error {
				c := w.Comm()
				if _, err := c.Sendrecv(nil, 1-c.Rank(), 0, nil, 1-c.Rank(), 0); err != nil {
					return err
				}
				if c.Rank() == late {
					w.Sleep(time.Millisecond)
					c.GetFailed() // makes progress: the other one's message is here
				}
				// The first one to call sends and has nothing to wait for. The second one finds its message, or finds it in
				// place of that of the next collective.
				err := op(c, c.Rank())
				if c.Rank() != late && err != nil {
					return err
				}
				if next := c.Barrier(); err == nil {
					err = next
				}
				for w.Now() < 10*time.Millisecond { // so that none is seen to depart
					w.Sleep(time.Millisecond)
					c.GetFailed()
				}
				if c.Rank() == late && !errors.Is(err, banyan.ErrArgument) {
					return fmt.Errorf("the second to call: %w", err)
				}
				return nil
			}), "%s, %d is late", name, late)
		}
	}
}

// A receive that waits, or is posted later, finds that what comes has another root, and that keeps nobody
// waiting.
func TestOtherRootThanTheParent(t *testing.T) {
	const n = 4
	for _, begun := range []bool{false, true} {
		for late := range n {
			require.NoError(t, banyan.Simulate(n, banyan.Simulation{}, func(w *banyan.World) error {
				c := w.Comm()
				if err := errors.Join(c.SetTree("chain"), c.Barrier()); err != nil {
					return err
				}
				if c.Rank() == late {
					w.Sleep(time.Millisecond)
				}
				root := 0
				if c.Rank() == n-1 { // the end of the chain from 0, which is in the middle of that from 1
					root = 1
				}
				buf := []byte{byte(c.Rank())}
				err := do(begun, func() error { return c.Bcast(buf, root) }, func() banyan.Request { return c.IBcast(buf, root) })
				if root == 0 {
					return err
				}
				if !errors.Is(err, banyan.ErrArgument) {
					return fmt.Errorf("the other root: %w", err)
				}
				return nil
			}), "begun %v, %d is late", begun, late)
		}
	}
}
