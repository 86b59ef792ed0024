package job

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric/host"
	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// Each dry run ends a receive with the failure of a peer, for as long as a process polls.
func TestDryRun(t *testing.T) {
	d := &dryRun{host: host.New(host.Config{}), last: dryPeers}
	for i := range 3 * dryPeers {
		var failed *ft.ProcFailedError
		require.ErrorAs(t, d.run(), &failed)
		require.Equal(t, []int{i%dryPeers + 1}, failed.Ranks)
		require.Equal(t, proc.Signaled, failed.Cause.Kind)
	}
}
