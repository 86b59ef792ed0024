package detection

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/launch"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// walledOff goes on with those with whom one can agree.
func walledOff(w *banyan.World) error {
	c, err := w.Comm().Shrink()
	if err != nil {
		return err
	}
	for _, err = c.Agree(1); errors.Is(err, banyan.ErrProcFailed); _, err = c.Agree(1) {
		if c, err = c.Shrink(); err != nil {
			return err
		}
	}
	if c.Size() != w.Comm().Size()-1 {
		return fmt.Errorf("%d are left", c.Size())
	}
	return errors.Join(err, c.Barrier())
}

// Real processes of which two have no fabric in common, and both reach a third: the higher one ends, and says why and
// what to do.
func TestWalledOff(t *testing.T) {
	const each = `case $PMI_RANK in 0) BANYAN_FABRIC=shm;; 2) BANYAN_FABRIC=tcp;; *) BANYAN_FABRIC=shm,tcp;; esac; export BANYAN_FABRIC; exec "$0"`
	exe, err := os.Executable()
	require.NoError(t, err)
	for _, detect := range []string{"on", "off"} {
		var out bytes.Buffer
		res, err := launch.Run(t.Context(), launch.Spec{
			N: 3, Argv: []string{"/bin/sh", "-c", each, exe}, Stdout: &out, Stderr: &out, OnFailure: launch.Continue,
			Env: append(os.Environ(), ranktest.RoleEnv+"=walled off", "BANYAN_DETECT="+detect),
		})
		require.NoError(t, err, "%s", out.String())
		require.Equal(t, banyan.ExitExpelled, res.Ends[2].Code, "%v\n%s", res.Ends, out.String())
		for _, end := range res.Ends[:2] {
			require.False(t, end.Failed(), "%v\n%s", res.Ends, out.String())
		}
		require.Contains(t, out.String(), "banyan: rank 2 ends itself: rank 0 and rank 2 cannot reach each other (no fabric joins")
		require.Contains(t, out.String(), "--fabric")
		t.Log(out.String())
	}
}
