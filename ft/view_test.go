package ft

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/internal/proc"
)

// A process fails once. A later report with another cause changes nothing, and an earlier list
// stays a prefix of later ones.
func TestFailureIsPermanent(t *testing.T) {
	var v View
	killed, silent := proc.Cause{Kind: proc.Signaled, Code: 9}, proc.Cause{Kind: proc.Heartbeat}
	require.True(t, v.Enter(70, killed))
	require.False(t, v.Enter(70, silent))
	require.EqualValues(t, 1, v.Epoch())
	before := slices.Clone(v.Order())
	require.True(t, v.Enter(3, silent))
	require.False(t, v.Enter(70, proc.Cause{Kind: proc.Departed}))
	require.EqualValues(t, 2, v.Epoch())
	require.Equal(t, []proc.ID{70}, before)
	require.Equal(t, []proc.ID{70, 3}, v.Order())
	require.Equal(t, killed, v.Cause(70))
	require.Equal(t, silent, v.Cause(3))
	for id, failed := range map[proc.ID]bool{70: true, 3: true, 4: false} {
		require.Equal(t, failed, v.Failed(id), "%v", id)
		require.Equal(t, failed, v.Set().Has(id), "%v", id)
	}
}
