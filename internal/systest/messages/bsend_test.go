package messages

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// A buffered send returns without a receiver, and its buffer may be changed. Beyond the limit it is
// an error and sends nothing; memory of received messages is free again. Finalize delivers messages
// under way.
func TestBsend(t *testing.T) {
	const long, limit = 1 << 20, 2<<20 + 200 // two, and not three
	require.NoError(t, banyan.Simulate(2, banyan.Simulation{}, func(w *banyan.World) error {
		c, buf := w.Comm(), make([]byte, long)
		if c.Rank() == 1 {
			w.Sleep(time.Second)
			for i := range 3 {
				st, err := c.Recv(buf, 0, 7)
				require.NoError(t, err)
				require.Equal(t, bytes.Repeat([]byte{byte(i)}, long), buf[:st.Count])
				if i == 1 {
					require.NoError(t, c.Send(nil, 0, 8))
					w.Sleep(time.Second) // rank 0 is in Finalize
				}
			}
			require.NoError(t, wait(c.Ibsend([]byte{1}, 1, 9)))
			_, err := c.Recv(buf, 1, 9)
			require.NoError(t, err)
			require.NoError(t, wait(banyan.Ibsend(c, []int64{5}, 1, 9)))
			got := make([]int64, 1)
			_, err = banyan.Recv(c, got, 1, 9)
			require.Equal(t, []int64{5}, got)
			return err
		}
		require.NoError(t, w.SetBufferLimit(limit))
		for i := range 2 {
			fill(buf, byte(i))
			require.NoError(t, banyan.Bsend(c, buf, 1, 7))
			fill(buf, 99)
		}
		require.ErrorIs(t, c.Bsend(buf, 1, 7), banyan.ErrArgument)
		require.ErrorContains(t, wait(c.Ibsend(buf, 1, 7)), "SetBufferLimit")
		require.NoError(t, c.Bsend(nil, banyan.ProcNull, 0))
		require.Less(t, w.Now(), time.Second)
		if _, err := c.Recv(nil, 1, 8); err != nil {
			return err
		}
		fill(buf, 2)
		return c.Bsend(buf, 1, 7)
	}))
}

func fill(buf []byte, with byte) {
	for i := range buf {
		buf[i] = with
	}
}

func wait(r banyan.Request) error {
	_, err := r.Wait()
	return err
}

// A buffered send is dropped when its receiver dies, and its memory is free again. One to a rank
// that is known to have failed is an error, and so is a wrong argument.
func TestBsendToTheDead(t *testing.T) {
	require.NoError(t, ranktest.SimulatedJob{N: 2, Kills: map[int]time.Duration{1: time.Second}}.Run(
		func(w *banyan.World) error {
			c, buf := w.Comm(), make([]byte, 8<<20)
			if c.Rank() == 1 {
				w.Sleep(time.Hour)
			}
			require.NoError(t, c.Bsend(buf, 1, 1))
			require.ErrorIs(t, c.Bsend(buf, 1, 1), banyan.ErrArgument) // with overhead more than 16 MiB
			for len(c.FailedRanks()) == 0 {
				w.Sleep(10 * time.Millisecond)
			}
			require.ErrorIs(t, c.Bsend(buf, 1, 1), banyan.ErrProcFailed)
			require.NoError(t, c.Bsend(buf[:1<<10], 0, 1))
			require.NoError(t, c.Bsend(buf, 0, 1))
			_, one := c.Recv(buf, 0, 1)
			_, two := c.Recv(buf, 0, 1)
			require.ErrorIs(t, c.Bsend(buf, 0, -7), banyan.ErrArgument)
			require.ErrorIs(t, w.SetBufferLimit(-1), banyan.ErrArgument)
			require.NoError(t, w.SetBufferLimit(0))
			require.ErrorIs(t, c.Bsend(nil, 0, 1), banyan.ErrArgument)
			return errors.Join(one, two)
		}))
	require.ErrorContains(t, (*banyan.Comm)(nil).Bsend(nil, 0, 0), "no call has made it")
	require.ErrorIs(t, new(banyan.World).SetBufferLimit(1), banyan.ErrArgument)
}
