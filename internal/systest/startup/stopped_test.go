package startup

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/launch"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

func init() { roles["stopped"] = stopped }

const aloneEnv = "BANYAN_TEST_ALONE"

// continueWhenAlone continues the process that started it when two others have ended, and reports
// that.
const continueWhenAlone = `n=0; while kill -0 $0 2>/dev/null || kill -0 $1 2>/dev/null; do
	sleep .05; n=$((n+1)); [ $n -lt 600 ] || { kill -CONT $PPID; exit; }
done; touch "$` + aloneEnv + `"; kill -CONT $PPID`

// stopped has the last rank stop, with aloneEnv until the processes of the others have ended. Rank 0 waits for it, the
// other one comes to Finalize without a failure.
func stopped(w *banyan.World) error {
	c := w.Comm()
	pids := make([]int64, c.Size())
	if err := banyan.Allgather(c, []int64{int64(os.Getpid())}, pids); err != nil {
		return err
	}
	switch c.Rank() {
	case 0:
		if _, err := c.Recv(nil, 2, 0); !banyan.IsFailure(err) {
			return fmt.Errorf("from the stopped rank: %w", err)
		}
		return nil
	case 1:
		return nil
	}
	if os.Getenv(aloneEnv) != "" {
		sh := exec.Command("sh", "-c", continueWhenAlone, fmt.Sprint(pids[0]), fmt.Sprint(pids[1]))
		if err := sh.Start(); err != nil {
			return err
		}
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
		return err
	}
	_, err := c.Recv(nil, 0, 0)
	return errors.Join(err, errors.New("it has been stopped"))
}

// A rank on another host that is stopped, and that no other rank can kill, blocks no rank in Finalize. After its
// stop it ends.
func TestStoppedRankHoldsNobodyInFinalize(t *testing.T) {
	t.Parallel() // it waits for the detector
	alone := filepath.Join(t.TempDir(), "alone")
	env := append([]string{ranktest.Nodes("a;a;b"), aloneEnv + "=" + alone}, ranktest.Steady...)
	res, out := ranktest.Job(t, launch.Continue, 3, "stopped", env...)
	require.FileExists(t, alone, out)
	require.False(t, res.Ends[0].Failed(), out)
	require.False(t, res.Ends[1].Failed(), out)
	require.True(t, res.Ends[2].Failed(), out)
}

// The launcher ends such a rank when all others have ended.
func TestStoppedRankIsKilledAtTheEnd(t *testing.T) {
	t.Parallel() // it waits for the detector and the launcher
	res, out := ranktest.Job(t, launch.Continue, 3, "stopped", append([]string{ranktest.Nodes("a;a;b")}, ranktest.Steady...)...)
	require.False(t, res.Ends[0].Failed(), out)
	require.False(t, res.Ends[1].Failed(), out)
	require.Equal(t, syscall.SIGKILL, syscall.Signal(res.Ends[2].Signal), out)
	require.Contains(t, out, "killing rank 2: it counts as failed at the others, which have ended")
}
