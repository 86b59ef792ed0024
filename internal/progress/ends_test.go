package progress

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric/host"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// Postponed, a listener of OnEndLater gets a failure in the next round. It gets a departure, and a peer that counts this
// process as failed, at once with the failures before. Else it gets each end at once.
func TestEndsAreToldLater(t *testing.T) {
	var now, later []proc.ID
	e := New(Config{Host: host.New(host.Config{})})
	e.PostponeEnds()
	e.OnEnd(func(ep *Endpoint, _ proc.Cause) { now = append(now, ep.Proc) })
	e.OnEndLater(func(ep *Endpoint, _ proc.Cause) {
		later = append(later, ep.Proc)
		e.FinishEnds()
	})
	e.Lock()
	defer e.Unlock()
	failed := proc.Cause{Kind: proc.Signaled, Code: 9}
	e.notifyEnd(&Endpoint{Proc: 1}, failed)
	require.Equal(t, []proc.ID{1}, now)
	require.Empty(t, later)
	require.True(t, e.ready(), "a process must not sleep now")
	e.Progress()
	require.Equal(t, []proc.ID{1}, later)
	e.notifyEnd(&Endpoint{Proc: 2}, failed)
	e.notifyEnd(&Endpoint{Proc: 3}, proc.Cause{Kind: proc.Departed})
	require.Equal(t, []proc.ID{1, 2, 3}, later)
	require.False(t, e.ready())
	e.notifyEnd(&Endpoint{Proc: 4}, proc.Cause{Kind: proc.Refused})
	require.Equal(t, []proc.ID{1, 2, 3, 4}, later)
	e.postponeEnds = false
	e.notifyEnd(&Endpoint{Proc: 5}, failed)
	require.Equal(t, []proc.ID{1, 2, 3, 4, 5}, later)
}
