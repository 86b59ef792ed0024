package agent

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/internal/exits"
)

// An agent without a free descriptor for a client reports that, and serves the client when there is
// one again.
func TestWantOfDescriptors(t *testing.T) {
	if !privileged(t) {
		return
	}
	address := filepath.Join(t.TempDir(), "agent")
	a := start(t, "agent", address, nil)
	require.Equal(t, "ready", a.line(t))
	free := 0 // the first number that is
	for ; ; free++ {
		if _, err := os.Lstat(fmt.Sprintf("/proc/%d/fd/%d", a.Process.Pid, free)); err != nil {
			break
		}
	}
	var usual unix.Rlimit
	require.NoError(t, unix.Prlimit(a.Process.Pid, unix.RLIMIT_NOFILE, nil, &usual))
	none := unix.Rlimit{Cur: uint64(free), Max: usual.Max}
	require.NoError(t, unix.Prlimit(a.Process.Pid, unix.RLIMIT_NOFILE, &none, nil))

	conn, err := net.Dial("unixpacket", address)
	require.NoError(t, err)
	defer conn.Close()
	require.Contains(t, a.line(t), "too many open files")
	require.NoError(t, unix.Prlimit(a.Process.Pid, unix.RLIMIT_NOFILE, &usual, nil))
	_, err = conn.Write([]byte("nonsense"))
	require.NoError(t, err)
	text := make([]byte, exits.TextMax)
	n, err := conn.Read(text)
	require.NoError(t, err)
	require.Contains(t, string(text[:n]), "another version")
}

// A process that the agent cannot see gets an answer.
func TestOutsideOfTheNamespace(t *testing.T) {
	if !privileged(t) {
		return
	}
	address := filepath.Join(t.TempDir(), "agent")
	a := start(t, "agent", address, &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID})
	require.Equal(t, "ready", a.line(t))
	_, err := exits.Dial(address)
	require.ErrorContains(t, err, "run the agent in the same one")
}
