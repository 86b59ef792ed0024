package hosts

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A host counts as lost if it does not report the ends of killed ranks, however often they are killed, and not if
// their output is read slowly.
func TestKilledRanksThatHaveEnded(t *testing.T) {
	c := &Config{Timeout: time.Hour}
	h := c.NewRemote(Share{Host: Host{Name: "a"}, first: 3, Count: 2})
	h.limit("its ranks were not started")
	h.shell.inTime()
	ends := func(rank int) {
		text, err := json.Marshal(endedText{PID: 100 + rank})
		require.NoError(t, err)
		require.NoError(t, h.onEnded(frame{kind: frameEnded, rank: rank, payload: text}))
	}

	h.Signal(unix.SIGKILL, true)
	first := h.shell.timer
	ends(3)
	h.Signal(unix.SIGKILL, true)
	require.Same(t, first, h.shell.timer)
	require.True(t, h.shell.timer.Reset(time.Hour), "rank 4 has not ended")
	ends(4)
	require.False(t, h.shell.timer.Stop())
	h.Signal(unix.SIGKILL, true)
	require.False(t, h.shell.timer.Stop())
	h.Dismiss()
	require.True(t, h.shell.timer.Stop())
}
