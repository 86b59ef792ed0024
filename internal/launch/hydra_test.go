//go:build launchers

package launch

import (
	"os"
	"os/exec"
	"testing"

	"github.com/banyan-hpc/banyan/internal/launch/rendezvous"
	"github.com/stretchr/testify/require"
)

// The secret reaches all ranks through Hydra's key-value space, between two
// proxies; where there is a file only its check value does.
func TestLaunchersSecretUnderHydra(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	for _, file := range []string{"", fileOf(t, sixteenBytes)} {
		cmd := exec.CommandContext(t.Context(), "mpiexec.mpich", "-launcher", "fork", "-hosts", "localhost:2,127.0.0.1:2", "-n", "4", self)
		cmd.Env = cleanEnv(roleEnv+"=secret", rendezvous.SecretFileEnv+"="+file)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "make launchers installs what is missing\n%s", out)
		oneSecret(t, string(out), 4)
	}
}
