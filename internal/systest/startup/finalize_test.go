package startup

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
)

// Goroutines that wait when the library is finalized, or call it afterwards, get
// an error.
func TestFinalizeUnderOthers(t *testing.T) {
	for round := range 100 {
		w, err := banyan.Init(banyan.WithAware(round%2 == 0), banyan.WithAsyncProgress(round%4 < 2))
		require.NoError(t, err)
		c := w.Comm()
		require.NoError(t, c.Send(nil, 0, 1))
		_, err = c.Recv(nil, 0, 1)
		require.NoError(t, err)
		posted := c.Irecv(nil, banyan.AnySource, 2)
		ended := make(chan error)
		go func() {
			_, err := c.Recv(make([]byte, 8), banyan.AnySource, 3)
			ended <- err
		}()
		go func() {
			_, err := posted.Wait()
			ended <- err
		}()
		require.NoError(t, w.Finalize())
		require.ErrorIs(t, <-ended, banyan.ErrClosed)
		require.ErrorIs(t, <-ended, banyan.ErrClosed)
		require.ErrorIs(t, c.Send(nil, 0, 1), banyan.ErrClosed)
		require.ErrorIs(t, c.Barrier(), banyan.ErrClosed)
		_, err = c.Recv(nil, 0, 1)
		require.ErrorIs(t, err, banyan.ErrClosed)
		_, _, err = c.Iprobe(0, 1)
		require.ErrorIs(t, err, banyan.ErrClosed)
	}
}
