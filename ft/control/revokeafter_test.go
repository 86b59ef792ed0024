package control

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// A member that failed long before, as all know, keeps no member from being notified: those below
// it in the tree are notified by others (ULFM 17.3.1).
func TestRevocationAfterAFailure(t *testing.T) {
	for _, c := range []struct {
		victim    proc.ID
		connected bool
	}{{1, false}, {3, false}, {1, true}} {
		x := &revocationJob{
			n: 8, connected: c.connected, seed: 5, kills: map[proc.ID]fabric.Time{c.victim: 1000},
			revokers: map[proc.ID]fabric.Time{0: 2 * DefaultTimeout},
		}
		require.NoError(t, x.run(), "%d has died, connected %v", c.victim, c.connected)
		require.True(t, x.notified[0])
	}
}
