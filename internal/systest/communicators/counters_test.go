package communicators

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
)

// Each communicator counts its own collectives and errors.
func TestCountersOfACommunicator(t *testing.T) {
	require.NoError(t, banyan.Simulate(2, banyan.Simulation{}, func(w *banyan.World) error {
		c, err := w.Comm().Dup()
		if err != nil {
			return err
		}
		require.Zero(t, c.Counters())
		buf := make([]byte, 1<<20)
		for range 3 { // by messages and, where it can be, by shared memory
			if err := errors.Join(c.Barrier(), c.Bcast(buf, 0), second(c.Ibarrier().Wait())); err != nil {
				return err
			}
		}
		require.ErrorIs(t, c.Send(nil, 7, 1), banyan.ErrArgument)
		require.ErrorIs(t, second(c.Irecv(nil, 7, 1).Wait()), banyan.ErrArgument)
		require.ErrorIs(t, c.Bcast(nil, 7), banyan.ErrArgument)
		require.Equal(t, banyan.CommCounters{Collectives: 10, Errors: 3}, c.Counters())
		require.Zero(t, w.Comm().Counters())
		w.Sleep(time.Second)
		return c.Free()
	}))
}
