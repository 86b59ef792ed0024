package messages

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// A rank starts to send and to receive long messages and then makes no call. The operations
// complete for its peer.
func TestAsyncProgress(t *testing.T) {
	for name, env := range map[string][]string{
		"pulled":      {ranktest.AsyncEnv + "=1"},
		"streamed":    {ranktest.AsyncEnv + "=1", ranktest.NoCopyEnv + "=1"},
		"by variable": {"BANYAN_PROGRESS_ASYNC=on"},
	} {
		t.Run(name, func(t *testing.T) {
			fifo := filepath.Join(t.TempDir(), "fifo")
			require.NoError(t, syscall.Mkfifo(fifo, 0o600))
			ranktest.Succeed(t, 2, "absent", append(env, ranktest.FIFOEnv+"="+fifo)...)
		})
	}
}

// absent has rank 1 block outside the library, until a word comes in a FIFO.
func absent(w *banyan.World) error {
	const size = 4 << 20
	c, in := w.Comm(), make([]byte, size)
	if c.Rank() == 1 {
		reqs := []banyan.Request{c.Irecv(in, 0, 1), c.Isend(ranktest.Pattern(1, size), 0, 2)}
		if err := c.Send(nil, 0, 3); err != nil {
			return err
		}
		if _, err := os.ReadFile(os.Getenv(ranktest.FIFOEnv)); err != nil {
			return err
		}
		if err := banyan.WaitAll(reqs); err != nil {
			return err
		}
		return ranktest.CheckEqual(in, ranktest.Pattern(0, size))
	}
	if _, err := c.Recv(nil, 1, 3); err != nil {
		return err
	}
	// Without asynchronous progress it would wait for ever.
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	_, err := c.WithContext(ctx).Recv(in, 1, 2)
	err = errors.Join(c.WithContext(ctx).Send(ranktest.Pattern(0, size), 1, 1), err,
		os.WriteFile(os.Getenv(ranktest.FIFOEnv), nil, 0))
	if err != nil {
		return err
	}
	return ranktest.CheckEqual(in, ranktest.Pattern(1, size))
}

// Other tests' roles, with a progress goroutine in each rank. Without a detector, whose dry runs allocate the more the
// longer a rank waits, as one of the roles counts allocations.
func TestAsyncRoles(t *testing.T) {
	for role, n := range map[string]int{"ring": 5, "crowd": 8, "threads": 2, "several": 2} {
		if testing.Short() && role == "crowd" {
			continue
		}
		t.Run(role, func(t *testing.T) { ranktest.Succeed(t, n, role, ranktest.AsyncEnv+"=1", "BANYAN_DETECT=off") })
	}
}

// Simulated time shows that a peer does not wait for the computing rank.
func TestSimulatedAsyncProgress(t *testing.T) {
	for _, get := range []bool{true, false} {
		for _, async := range []bool{true, false} {
			const compute = time.Second
			var waited time.Duration
			err := banyan.Simulate(2, banyan.Simulation{
				Configure: func(c *sim.Config) { c.Get = get },
				Options:   []banyan.Option{banyan.WithAsyncProgress(async)},
			}, func(w *banyan.World) error {
				c, buf := w.Comm(), make([]byte, 1<<20)
				if c.Rank() == 0 {
					err := c.Send(buf, 1, 0)
					waited = w.Now()
					return err
				}
				req := c.Irecv(buf, 0, 0)
				w.Sleep(compute)
				_, err := req.Wait()
				return err
			})
			require.NoError(t, err)
			require.Equal(t, async, waited < compute, "get %v, async %v: the send took %v", get, async, waited)
		}
	}
}

// Deaths at any step, with progress goroutines: the other rank ends.
func TestSimulatedAsyncDeath(t *testing.T) {
	for step := uint64(1); step < 80; step++ {
		err := banyan.Simulate(2, banyan.Simulation{
			Seed: step, Faults: func(s *sim.Sim) error { return s.KillAtStep(1, step) },
			Options: []banyan.Option{banyan.WithAsyncProgress(true)},
		}, func(w *banyan.World) error {
			err := ranktest.Ring(w)
			if w.Comm().Rank() == 0 && err != nil && !errors.Is(err, banyan.ErrProcFailed) {
				return fmt.Errorf("want a failure of rank 1, not: %w", err)
			}
			return nil
		})
		require.NoError(t, err, "step %d", step)
	}
}

func TestSimulatedRing(t *testing.T) {
	for _, n := range []int{1, 2, 3, 16} {
		for _, get := range []bool{true, false} {
			t.Run(fmt.Sprintf("%d ranks, get %v", n, get), func(t *testing.T) {
				require.NoError(t, banyan.Simulate(n, banyan.Simulation{
					Configure: func(c *sim.Config) { c.Get = get },
				}, ranktest.Ring))
			})
		}
	}
}

// A death at each step of a send: the receive ends with an error that names the rank, or with the
// complete message.
func TestSimulatedDeathOfTheSender(t *testing.T) {
	for step := uint64(1); step < 60; step++ {
		for _, size := range []int{8, 20_000, 1 << 20} {
			err := banyan.Simulate(2, banyan.Simulation{
				Seed:   step,
				Faults: func(s *sim.Sim) error { return s.KillAtStep(1, step) },
			}, func(w *banyan.World) error {
				c := w.Comm()
				if c.Rank() == 1 {
					return c.Send(ranktest.Pattern(1, size), 0, 3)
				}
				buf := make([]byte, size)
				_, err := c.Recv(buf, 1, 3)
				var failed *banyan.ProcFailedError
				switch {
				case err == nil && !bytes.Equal(buf, ranktest.Pattern(1, size)):
					return errors.New("half a message was delivered")
				case err != nil && !errors.Is(err, banyan.ErrProcFailed):
					return err
				case err != nil && (!errors.As(err, &failed) || len(failed.Ranks) != 1 || failed.Ranks[0] != 1):
					return fmt.Errorf("the error does not name rank 1: %w", err)
				}
				return nil
			})
			require.NoError(t, err, "step %d, size %d", step, size)
		}
	}
}

func TestSimulatedClock(t *testing.T) {
	var d time.Duration
	run := func() error {
		return banyan.Simulate(2, banyan.Simulation{}, func(w *banyan.World) error {
			err := ranktest.Ring(w)
			d = w.Now()
			return err
		})
	}
	require.NoError(t, run())
	first := d
	require.NoError(t, run())
	require.Equal(t, first, d, "the same seed took another time")
	require.NotZero(t, d)
}
