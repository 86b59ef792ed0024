package p2p

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric/host"
	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
)

// A peer to which no fabric leads is a failed process for the operation that needs it, and for the
// agreements that follow.
func TestNoRouteIsProcFailed(t *testing.T) {
	e := New(progress.New(progress.Config{Host: host.New(host.Config{})}), true, Limits{})
	c, err := e.NewComm("world", WorldGroup(3), 0, 1)
	require.NoError(t, err)
	_, recv := Recv[Aware](c, nil, 1, 0)
	_, _, probe := Iprobe[Aware](c, 1, 0)
	for op, err := range map[string]error{
		"Send(dst 1, tag 0, 0 bytes) on world": Send[Aware](c, nil, 1, 0), "Recv(src 1, tag 0) on world": recv,
		"Probe(src 1, tag 0) on world": probe, "": c.Connect(1),
	} {
		require.ErrorIs(t, err, ft.ErrProcFailed, op)
		var failed *ft.ProcFailedError
		require.ErrorAs(t, err, &failed, op)
		require.Equal(t, []int{1}, failed.Ranks, op)
		if whole, ok := err.(*ft.OpError); op != "" { //nolint:errorlint // the outermost
			require.True(t, ok)
			require.Equal(t, op, whole.Operation())
		}
		var none *progress.NoRouteError
		require.ErrorAs(t, err, &none, op)
	}
	require.Equal(t, map[proc.ID]proc.Cause{1: {Kind: proc.Unreachable}}, maps.Collect(c.UnreachablePeers()))
}
