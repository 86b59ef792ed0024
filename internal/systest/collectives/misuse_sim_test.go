package collectives

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
)

// Who begins an operation without a place for its result has not begun it: the next one meets the others.
func TestNowhereToLeaveAResult(t *testing.T) {
	require.NoError(t, banyan.Simulate(3, banyan.Simulation{}, func(w *banyan.World) error {
		c := w.Comm()
		for what, r := range map[string]banyan.Request{
			"agree on world: wrong argument: nil for the flag":                           c.IAgree(nil),
			"shrink on world: wrong argument: nil for the place of the new communicator": c.IShrink(nil),
			"validate on world: wrong argument: nil for the place of the failed ranks":   c.IValidate(nil),
		} {
			_, err := r.Wait()
			require.ErrorIs(t, err, banyan.ErrArgument)
			require.EqualError(t, err, what)
		}
		_, err := c.Validate()
		return errors.Join(err, c.Barrier())
	}))
}

// The errors of lengths that differ name lengths that some rank has called with, and no others: neither that of an empty message of who
// has met such an error already, nor that of the announcement of a long message.
func TestLengthErrorsNameRealLengths(t *testing.T) {
	for name, lengths := range map[string][]int{
		"short": {24, 32, 40, 48}, "long": {2_400_000, 2_408_000, 2_416_000, 2_424_000}, "both": {4_000_000, 8, 8, 8},
	} {
		t.Run(name, func(t *testing.T) {
			for _, s := range []banyan.Simulation{{}, {Configure: oneEach}} {
				require.NoError(t, banyan.Simulate(4, s, func(w *banyan.World) error {
					c := w.Comm()
					buf := make([]byte, lengths[c.Rank()])
					fold := func(acc, in []byte) { copy(acc, in) }
					for _, nonblocking := range []bool{false, true} {
						errs := []error{
							do(nonblocking, func() error { return c.AllreduceBytes(buf, fold) },
								func() banyan.Request { return c.IAllreduceBytes(buf, fold) }),
							do(nonblocking, func() error { return banyan.Reduce(c, buf, banyan.Sum, 1) },
								func() banyan.Request { return banyan.IReduce(c, buf, banyan.Sum, 1) }),
							do(nonblocking, func() error { return c.Bcast(buf, 0) }, func() banyan.Request { return c.IBcast(buf, 0) }),
						}
						require.ErrorIs(t, errs[0], banyan.ErrArgument)
						for _, err := range errs {
							if err == nil {
								continue
							}
							for _, wrong := range []string{" 0 bytes", "wants 61 bytes", "want 61", "buffer of", "tag"} {
								require.False(t, strings.Contains(err.Error(), wrong), "%v", err)
							}
						}
					}
					return c.Barrier()
				}))
			}
		})
	}
}

// An error names the operation and the communicator once, and the root as a root.
func TestErrorsNameTheOperationOnce(t *testing.T) {
	require.NoError(t, banyan.Simulate(1, banyan.Simulation{}, func(w *banyan.World) error {
		c, err := w.Comm().Dup()
		require.NoError(t, err)
		_, err = c.IBcast(nil, 7).Wait()
		require.EqualError(t, err, "ibcast on world.1: wrong argument: root 7, want 0 … 0")
		require.NoError(t, c.Free())
		_, err = c.Dup()
		require.EqualError(t, err, "dup on world.1: closed: the communicator has been freed")
		return nil
	}))
}

// A rank whose arguments are wrong takes part with nothing, which fits nobody: all ranks that wait for it learn of it, none hangs, and
// the next operation meets.
func TestWrongArgumentsAtOneRank(t *testing.T) {
	fold := func(acc, in []byte) { copy(acc, in) }
	for name, op := range map[string]func(c *banyan.Comm, nonblocking, wrong bool, size int) error{
		"allreduce": func(c *banyan.Comm, nonblocking, wrong bool, size int) error {
			buf, fold := make([]byte, size), unless(wrong, fold)
			return do(nonblocking, func() error { return c.AllreduceBytes(buf, fold) },
				func() banyan.Request { return c.IAllreduceBytes(buf, fold) })
		},
		"reduce": func(c *banyan.Comm, nonblocking, wrong bool, size int) error {
			buf, fold := make([]byte, size), unless(wrong, fold)
			return do(nonblocking, func() error { return c.ReduceBytes(buf, fold, 0) },
				func() banyan.Request { return c.IReduceBytes(buf, fold, 0) })
		},
		"gather": func(c *banyan.Comm, nonblocking, wrong bool, size int) error {
			block, all := make([]byte, size), make([]byte, blocksOf(c, wrong, size))
			return do(nonblocking, func() error { return c.GatherBytes(block, all, 2) },
				func() banyan.Request { return c.IGatherBytes(block, all, 2) })
		},
		"scatter": func(c *banyan.Comm, nonblocking, wrong bool, size int) error {
			block, all := make([]byte, size), make([]byte, blocksOf(c, wrong, size))
			return do(nonblocking, func() error { return c.ScatterBytes(all, block, 2) },
				func() banyan.Request { return c.IScatterBytes(all, block, 2) })
		},
		"allgather": func(c *banyan.Comm, nonblocking, wrong bool, size int) error {
			block, all := make([]byte, size), make([]byte, blocksOf(c, wrong, size))
			return do(nonblocking, func() error { return c.AllgatherBytes(block, all) },
				func() banyan.Request { return c.IAllgatherBytes(block, all) })
		},
	} {
		for i, size := range []int{0, 16, 40_000, 3_000_000, 0, 16, 40_000, 3_000_000} {
			nonblocking := i >= 4
			t.Run(fmt.Sprintf("%s of %d, non-blocking %v", name, size, nonblocking), func(t *testing.T) {
				const bad = 2
				silent := name == "gather" || name == "reduce"
				require.NoError(t, banyan.Simulate(5, banyan.Simulation{}, func(w *banyan.World) error {
					c := w.Comm()
					err := op(c, nonblocking, c.Rank() == bad, size)
					if c.Rank() == bad || size > 0 && !silent {
						require.ErrorIs(t, err, banyan.ErrArgument)
					}
					return c.Barrier()
				}))
			})
		}
	}
}

func unless(wrong bool, fold func(acc, in []byte)) func(acc, in []byte) {
	if wrong {
		return nil
	}
	return fold
}

// blocksOf is the length of the blocks of all ranks, or another one.
func blocksOf(c *banyan.Comm, wrong bool, size int) int {
	if wrong {
		return c.Size()*size + 8
	}
	return c.Size() * size
}
