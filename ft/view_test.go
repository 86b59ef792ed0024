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

// The causes of the first failures and of later ones are kept, each with its process, also those that come later.
func TestCauseOfEachFailure(t *testing.T) {
	var v View
	const failures = 3 * firstCauses
	for i := range failures {
		v.Enter(proc.ID(2*i), proc.Cause{Kind: proc.Exited, Code: int32(i)})
		v.Enter(proc.ID(2*i), proc.Cause{Kind: proc.Departed})
	}
	for i := range failures {
		require.Equal(t, proc.Cause{Kind: proc.Exited, Code: int32(i)}, v.Cause(proc.ID(2*i)))
		require.Zero(t, v.Cause(proc.ID(2*i+1)))
	}
	for i := range failures {
		v.Explain(proc.ID(2*i), proc.Cause{Kind: proc.Signaled, Code: int32(i)})
		v.Explain(proc.ID(2*i+1), proc.Cause{Kind: proc.Signaled})
		require.Equal(t, proc.Cause{Kind: proc.Signaled, Code: int32(i)}, v.Cause(proc.ID(2*i)))
		require.False(t, v.Failed(proc.ID(2*i+1)))
		require.Zero(t, v.Cause(proc.ID(2*i+1)))
	}
}
