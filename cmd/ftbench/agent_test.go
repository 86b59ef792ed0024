package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/internal/exits"
	"github.com/banyan-hpc/banyan/internal/exits/hook"
)

// mayHook reports whether the kernel's programs can be loaded. If not, the test
// fails, or returns where the user has asked for that.
func mayHook(t *testing.T) bool {
	t.Helper()
	ok, why := hook.Available()
	if !ok && os.Getenv("BANYAN_NO_BPF") == "1" {
		fmt.Fprintf(os.Stderr, "NOT TESTED: %s: BANYAN_NO_BPF=1 and %s\n", t.Name(), why)
		return false
	}
	require.True(t, ok, "%s\n(BANYAN_NO_BPF=1 leaves this test out)", why)
	return true
}

// An agent serves until it is ended, and removes its socket then.
func TestAgent(t *testing.T) {
	if !mayHook(t) {
		return
	}
	address := filepath.Join(t.TempDir(), "agent")
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self, "agent", "--address", address)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	said, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "listening at "+address+"\n", said)

	tab, err := exits.Dial(address)
	require.NoError(t, err)
	require.True(t, tab.Watched(os.Getpid()))
	_, ended := tab.Ended(os.Getpid())
	require.False(t, ended)
	require.NoError(t, tab.Close())

	require.NoError(t, cmd.Process.Signal(unix.SIGTERM))
	require.NoError(t, cmd.Wait())
	_, err = os.Stat(address)
	require.ErrorIs(t, err, os.ErrNotExist)
}

// The variables that ranks find in their environment.
func TestRunExits(t *testing.T) {
	if !mayHook(t) {
		return
	}
	self, err := os.Executable()
	require.NoError(t, err)
	for _, c := range []struct{ flag, env, want string }{
		{"auto", "", "4,5,6(,7(,8)?)?"}, {"on", "", "4,5,6(,7(,8)?)?"}, {"off", "", "off"},
		{"auto", "@agent", "@agent"}, {"on", "@agent", "4,5,6(,7(,8)?)?"}, {"auto", "off", "off"},
	} {
		cmd := exec.Command(self, "run", "--exits", c.flag, "--", "sh", "-c", "echo $"+exits.Env)
		cmd.Env = append(os.Environ(), exits.Env+"="+c.env)
		out, err := cmd.Output()
		require.NoError(t, err)
		require.Regexp(t, "^"+c.want+"\n$", string(out), "%v", c)
	}
}

func TestAgentAddress(t *testing.T) {
	require.ErrorContains(t, (&agentCmd{Address: "relative"}).Validate(), "absolute path")
	require.NoError(t, (&agentCmd{Address: exits.DefaultAgent}).Validate())
}

// The choice about the kernel's record is added to the inherited environment of ranks.
func TestExitsKeepTheEnvironment(t *testing.T) {
	t.Setenv("BANYAN_TEST_MARK", "here")
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self, "run", "--exits", "off", "--", "sh", "-c", `echo "$BANYAN_TEST_MARK $BANYAN_EXITS"`)
	cmd.Stderr = os.Stderr
	said, err := cmd.Output()
	require.NoError(t, err)
	require.Equal(t, "here off\n", string(said))
}

func TestExitsVariable(t *testing.T) {
	for _, value := range []string{"quark", "1,2,3", "on "} {
		_, err := openExits(value)
		require.ErrorContains(t, err, fmt.Sprintf("BANYAN_EXITS=%q: ", value))
		require.ErrorContains(t, err, "ftbench agent")
	}
	for _, value := range []string{"off", "@agent", "/run/agent"} {
		h, err := openExits(value)
		require.NoError(t, err)
		require.Nil(t, h)
	}
}
