package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/internal/launch/hosts"
	"github.com/banyan-hpc/banyan/internal/netns"
)

// here is a remote shell that stays on this machine.
const here = "env HERE={host}"

func TestRunOnHosts(t *testing.T) {
	code, out, errs := ftbench(t, "run", "--hosts", "a:2,b", "--rsh", here, "--tag-output", "-x", "WORD=some words",
		"--", "sh", "-c", "echo $PMI_RANK $PMI_SIZE $HERE $BANYAN_LOCAL_RANK $WORD")
	require.Zero(t, code, errs)
	require.ElementsMatch(t, []string{"[0] 0 3 a 0 some words", "[1] 1 3 a 1 some words", "[2] 2 3 b 0 some words"},
		strings.Split(strings.TrimSpace(out), "\n"))

	file := filepath.Join(t.TempDir(), "nodes")
	require.NoError(t, os.WriteFile(file, []byte("a slots=2 # two\nb:2\n"), 0o600))
	t.Setenv("BANYAN_RSH", here)
	dir := t.TempDir()
	code, out, errs = ftbench(t, "run", "--hostfile", file, "-n", "3", "--wdir", dir, "--", "sh", "-c", "pwd; exit $PMI_RANK")
	require.Contains(t, []int{1, 2}, code)
	require.Equal(t, strings.Repeat(dir+"\n", 3), out)
	require.Contains(t, errs, "rank 2 on b exited with code 2")

	code, out, errs = ftbench(t, "run", "--hostfile", file, "-n", "5", "--", "true")
	require.Equal(t, exitFailed, code)
	require.Empty(t, out)
	require.Contains(t, errs, "5 ranks for 4 slots")
	code, out, errs = ftbench(t, "run", "--hostfile", file, "-n", "5", "--oversubscribe", "--", "echo", "x")
	require.Zero(t, code, errs)
	require.Equal(t, 5, strings.Count(out, "x\n"))

	code, _, errs = ftbench(t, "run", "--hosts", "a", "--remote-ftbench", "/no/such/ftbench", "--", "true")
	require.Equal(t, exitFailed, code)
	require.Contains(t, errs, "is /no/such/ftbench on that host")
	code, _, errs = ftbench(t, "run", "--hosts", "a", "--remote-ftbench", "/bin/true", "--", "true")
	require.Equal(t, exitFailed, code)
	require.Contains(t, errs, "has it run /bin/true there, and is that ftbench?")
}

// Scripts made for other launchers have the option everywhere; the variable of the
// remote shell may be set for other jobs.
func TestRunHereHeedsNoHosts(t *testing.T) {
	t.Setenv(rshEnv, "no such shell")
	code, out, errs := ftbench(t, "run", "-n", "3", "--oversubscribe", "--", "echo", "x")
	require.Zero(t, code, errs)
	require.Equal(t, "x\nx\nx\n", out)
	require.Contains(t, errs, "--oversubscribe is for --hosts and --hostfile")
}

// Ctrl-Z stops the ranks on all hosts, fg continues them.
func TestRunOnHostsStopsAndContinues(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	l := &launcher{Cmd: exec.Command(self, "run", "--hosts", "a,b", "--rsh", here, "--", "sh", "-c", "echo $$; exec sleep 1000")}
	l.Stderr = &l.errs
	out, err := l.StdoutPipe()
	require.NoError(t, err)
	l.out = bufio.NewReader(out)
	require.NoError(t, l.Start())
	var pids []string
	for range 2 {
		line, err := l.out.ReadString('\n')
		require.NoError(t, err)
		pids = append(pids, strings.TrimSpace(line))
	}
	require.NoError(t, l.Process.Signal(unix.SIGTSTP))
	var ws unix.WaitStatus
	_, err = unix.Wait4(l.Process.Pid, &ws, unix.WUNTRACED, nil)
	require.NoError(t, err)
	require.True(t, ws.Stopped())
	for _, pid := range pids {
		for state(t, pid) != "T" {
			runtime.Gosched()
		}
	}
	require.NoError(t, l.Process.Signal(unix.SIGCONT))
	for _, pid := range pids {
		for state(t, pid) == "T" {
			runtime.Gosched()
		}
	}
	require.NoError(t, l.Process.Signal(unix.SIGTERM))
	l.ends(t, 128+int(unix.SIGTERM))
}

func TestHelpNamesTheDefaultShell(t *testing.T) {
	_, out, _ := ftbench(t, "run", "--help")
	require.Contains(t, strings.Join(strings.Fields(out), " "), hosts.DefaultShell)
}

func TestProxyWantsNoTerminal(t *testing.T) {
	_, slave := openTerminal(t)
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self, "proxy")
	cmd.Stdin = slave
	said, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.Equal(t, exitUsage, cmd.ProcessState.ExitCode())
	require.Contains(t, string(said), "is started by ftbench run --hosts")
}

// namespaces reports whether this process may make some. If it may not, it fails unless the
// environment permits that.
func namespaces(t *testing.T) bool {
	err := netns.Check()
	if err != nil && os.Getenv("BANYAN_NO_NETNS") == "1" {
		t.Logf("not tested: %v", err)
		return false
	}
	require.NoError(t, err, "BANYAN_NO_NETNS=1 leaves this out")
	return true
}

// leftOf lists the namespaces that a process has made.
func leftOf(t *testing.T, pid int) []string {
	left, err := filepath.Glob(fmt.Sprintf("/run/netns/banyan-%d-*", pid))
	require.NoError(t, err)
	return left
}

func TestRunOnNamespaces(t *testing.T) {
	if !namespaces(t) {
		return
	}
	code, out, errs := ftbench(t, "run", "--netns", "2", "-n", "3", "--netns-rate", "1gbit", "--bind", "core", "--tag-output", "--",
		"sh", "-c", "echo $BANYAN_NODE $(readlink /proc/self/ns/net) $BANYAN_LOCAL_RANK")
	require.Zero(t, code, errs)
	said := make(map[string][]string)
	for line := range strings.Lines(out) {
		words := strings.Fields(line)
		said[words[0]] = words[1:]
	}
	require.Len(t, said, 3)
	require.Equal(t, said["[0]"][:2], said["[1]"][:2])
	require.NotEqual(t, said["[0]"][0], said["[2]"][0])
	require.NotEqual(t, said["[0]"][1], said["[2]"][1])
	require.Equal(t, "1", said["[1]"][2])
	require.Empty(t, leftOf(t, os.Getpid()))

	code, out, errs = ftbench(t, "run", "--netns", "2", "--", "echo", "one")
	require.Zero(t, code, errs)
	require.Equal(t, "one\none\n", out)

	// Ranks of one machine give way to each other within a session alone.
	session, err := unix.Getsid(0)
	require.NoError(t, err)
	code, out, errs = ftbench(t, "run", "--netns", "2", "--", "cut", "-d ", "-f6", "/proc/self/stat")
	require.Zero(t, code, errs)
	require.Equal(t, fmt.Sprintf("%d\n%d\n", session, session), out)
}

// startNetns starts a job on two namespaces whose ranks wait for a signal.
func startNetns(t *testing.T, policy string) *launcher {
	self, err := os.Executable()
	require.NoError(t, err)
	l := &launcher{Cmd: exec.Command(self, "run", "--netns", "2", "--on-failure", policy, "--", "sh", "-c", "echo $$; exec sleep 1000")}
	l.Stderr = &l.errs
	out, err := l.StdoutPipe()
	require.NoError(t, err)
	l.out = bufio.NewReader(out)
	require.NoError(t, l.Start())
	return l
}

func TestRunOnNamespacesEndsWithASignal(t *testing.T) {
	if !namespaces(t) {
		return
	}
	l := startNetns(t, "continue")
	for range 2 {
		_, err := l.out.ReadString('\n')
		require.NoError(t, err)
	}
	require.NotEmpty(t, leftOf(t, l.Process.Pid))
	require.NoError(t, l.Process.Signal(unix.SIGTERM))
	l.ends(t, 128+int(unix.SIGTERM))
	require.Empty(t, leftOf(t, l.Process.Pid))
}

// A launcher that is killed takes its ranks with it under abort; the namespaces
// are removed by the next one.
func TestRunOnNamespacesKilled(t *testing.T) {
	if !namespaces(t) {
		return
	}
	l := startNetns(t, "abort")
	var pids []string
	for range 2 {
		line, err := l.out.ReadString('\n')
		require.NoError(t, err)
		pids = append(pids, strings.TrimSpace(line))
	}
	require.NoError(t, l.Process.Kill())
	_ = l.Wait() // it was killed
	require.NotEmpty(t, leftOf(t, l.Process.Pid))
	for _, pid := range pids {
		for {
			if _, err := os.Stat("/proc/" + pid); err != nil {
				break
			}
			runtime.Gosched()
		}
	}
	code, _, errs := ftbench(t, "run", "--netns", "1", "--", "true")
	require.Zero(t, code, errs)
	require.Empty(t, leftOf(t, l.Process.Pid))
}
