package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The agent makes its directory, and takes none in which other users could replace its socket.
func TestDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "banyan")
	address := filepath.Join(dir, "agent.sock")
	l, err := Listen(address)
	require.NoError(t, err)
	_, err = Listen(address)
	require.ErrorContains(t, err, fmt.Sprintf("an agent runs already (process %d of user %d)", os.Getpid(), os.Getuid()))
	require.NoError(t, l.Close())
	st, err := os.Stat(dir)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o755), st.Mode().Perm())

	require.NoError(t, os.Chmod(dir, 0o777))
	_, err = Listen(address)
	require.ErrorContains(t, err, "other users may write in "+dir)
	require.NoError(t, os.Chmod(dir, os.ModeSticky|0o777)) // as /tmp: only the owner of a file removes it
	l, err = Listen(address)
	require.NoError(t, err)
	require.NoError(t, l.Close())
	if os.Geteuid() == 0 {
		require.NoError(t, os.Chown(dir, 65534, 65534))
		_, err = Listen(address)
		require.ErrorContains(t, err, "belongs to user 65534, which could replace")
	}
	_, err = Listen(filepath.Join(dir, "none", "none", "agent.sock"))
	require.ErrorContains(t, err, "name another address with --address and BANYAN_EXITS")
}
