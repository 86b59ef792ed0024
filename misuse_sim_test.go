package banyan_test

import (
	"errors"
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
			require.NoError(t, banyan.Simulate(4, banyan.Simulation{}, func(w *banyan.World) error {
				c := w.Comm()
				buf := make([]byte, lengths[c.Rank()])
				fold := func(acc, in []byte) { copy(acc, in) }
				err := c.AllreduceBytes(buf, fold)
				require.ErrorIs(t, err, banyan.ErrArgument)
				for _, wrong := range []string{" 0 bytes", "wants 61 bytes", "want 61"} {
					require.False(t, strings.Contains(err.Error(), wrong), "%v", err)
				}
				return c.Barrier()
			}))
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
