package detection

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/launch"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// One rank warns that the agent that the user has named is not there. The job does without.
func TestNamedAgentIsMissing(t *testing.T) {
	missing := "BANYAN_EXITS=" + t.TempDir() + "/agent.sock"
	res, out := ranktest.Job(t, launch.Abort, 3, "meets", missing, "BANYAN_FABRIC=shm")
	require.Zero(t, res.Code, out)
	require.Equal(t, 1, strings.Count(out, "start the agent there, or unset BANYAN_EXITS"), out)
	require.Contains(t, out, "banyan: rank 0: failures are not reported by the kernel's record: exits: no agent at /")
}

func meets(w *banyan.World) error {
	if err := w.Comm().Barrier(); err != nil {
		return err
	}
	return w.Finalize()
}
