package launch

import (
	"os"
	"os/exec"
	"testing"

	"github.com/banyan-hpc/banyan/internal/launch/pmi"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A launcher that does not answer does not hold up Join for ever.
func TestSilentLauncher(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(fds[0])
	theirs := os.NewFile(uintptr(fds[1]), "pmi")
	defer theirs.Close()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self)
	cmd.Env = cleanEnv(roleEnv+"=join", pmi.InitTimeoutEnv+"=0.2", "PMI_FD=3", "PMI_RANK=0", "PMI_SIZE=1")
	cmd.ExtraFiles = []*os.File{theirs}
	out, _ := cmd.CombinedOutput() // the error is the code, which is looked at
	require.Equal(t, 9, cmd.ProcessState.ExitCode())
	require.Contains(t, string(out), "nothing has answered on PMI_FD=3 within 200ms ("+pmi.InitTimeoutEnv+")")
}
