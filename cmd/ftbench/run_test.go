package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// launcher is ftbench run as a process of its own.
type launcher struct {
	*exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	errs bytes.Buffer
}

// startRun starts one rank with a shell script, by way of the words in before.
func startRun(t *testing.T, script string, before ...string) *launcher {
	self, err := os.Executable()
	require.NoError(t, err)
	args := append(before, self, "run", "--", "sh", "-c", script)
	l := &launcher{Cmd: exec.Command(args[0], args[1:]...)}
	l.Stderr = &l.errs
	l.in, err = l.StdinPipe()
	require.NoError(t, err)
	out, err := l.StdoutPipe()
	require.NoError(t, err)
	l.out = bufio.NewReader(out)
	require.NoError(t, l.Start())
	return l
}

func (l *launcher) reads(t *testing.T, want string) {
	t.Helper()
	line, err := l.out.ReadString('\n')
	require.NoError(t, err, "%q, %s", line, &l.errs)
	require.Equal(t, want+"\n", line)
}

func (l *launcher) ends(t *testing.T, code int) {
	t.Helper()
	rest, err := io.ReadAll(l.out)
	require.NoError(t, err)
	require.Empty(t, string(rest))
	_ = l.Wait() // an error is a code, which is looked at
	require.Equal(t, code, l.ProcessState.ExitCode(), &l.errs)
}

// Under nohup the hang-up stays ignored, and the warning of a batch system
// reaches the rank.
func TestRunUnderNohup(t *testing.T) {
	l := startRun(t, `trap "echo warned; kill \$!" USR1; sleep 1000 & echo ready; wait; read x; echo $x`,
		"sh", "-c", `trap "" HUP; exec "$0" "$@"`)
	l.reads(t, "ready")
	require.NoError(t, l.Process.Signal(unix.SIGHUP))
	require.NoError(t, l.Process.Signal(unix.SIGUSR1))
	l.reads(t, "warned")
	_, err := io.WriteString(l.in, "on\n")
	require.NoError(t, err)
	l.reads(t, "on")
	l.ends(t, 0)
}

func TestRunForwardsQuit(t *testing.T) {
	l := startRun(t, `trap "kill \$!; echo quit; exit 4" QUIT; sleep 1000 & echo ready; wait`)
	l.reads(t, "ready")
	require.NoError(t, l.Process.Signal(unix.SIGQUIT))
	l.reads(t, "quit")
	l.ends(t, 4)
	require.NotContains(t, l.errs.String(), "goroutine")
}

// timeout(1) signals the launcher and its group, so the launcher gets every signal twice. The rank has the time to clean up
// that one signal gives: it waits for the SIGCONT that timeout sends behind both.
// A second SIGCONT may interrupt its read.
func TestRunUnderTimeout(t *testing.T) {
	for range 8 {
		l := startRun(t, `trap term=1 TERM; trap cont=1 CONT; echo ready
			while [ -z "$term" -o -z "$cont" ]; do sleep 0.01; done
			echo signalled; until read x; do :; done; echo clean $x`, "timeout", "1000")
		l.reads(t, "ready")
		require.NoError(t, l.Process.Signal(unix.SIGTERM))
		l.reads(t, "signalled")
		_, err := io.WriteString(l.in, "now\n")
		require.NoError(t, err)
		l.reads(t, "clean now")
		l.ends(t, 0)
	}
}

// A repeated interrupt kills ranks that heed no signal.
func TestRunInsist(t *testing.T) {
	l := startRun(t, `trap "" TERM; echo ready; exec sleep 1000`)
	l.reads(t, "ready")
	tick, insisting := time.NewTicker(10*time.Millisecond), make(chan struct{})
	defer tick.Stop()
	go func() {
		for {
			select {
			case <-tick.C:
				_ = l.Process.Signal(unix.SIGTERM) // it may have ended
			case <-insisting:
				return
			}
		}
	}()
	l.ends(t, 128+int(unix.SIGTERM))
	close(insisting)
}

// A job that has survived the death of a rank ends with the code of --exit.
func TestRunExit(t *testing.T) {
	t.Setenv(rshEnv, here)
	for args, want := range map[string]int{
		"": 137, "--exit rank0": 0, "--exit survivors": 0, "--exit survivors --max-failures 1": 0,
		"--exit survivors --max-failures 0": 137, "--exit survivors --on-failure abort": 137, "--exit rank0 --hosts a,b": 0, "--hosts a,b": 137,
	} {
		argv := append(strings.Fields("run -n 2 "+args), "--", "sh", "-c", `[ $PMI_RANK = 0 ] || kill -9 $$`)
		code, _, errs := ftbench(t, argv...)
		require.Equal(t, want, code, "%s\n%s", args, errs)
		require.Contains(t, errs, "was killed by SIGKILL", args)
	}
}

// state is a process's state as ps shows it: S, R, T …
func state(t *testing.T, pid string) string {
	b, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	require.NoError(t, err)
	_, after, _ := strings.Cut(string(b), ") ")
	return after[:1]
}

func TestRunStopsAndContinues(t *testing.T) {
	l := startRun(t, `echo $$; exec sleep 1000`)
	line, err := l.out.ReadString('\n')
	require.NoError(t, err)
	pid := strings.TrimSpace(line)
	require.NoError(t, l.Process.Signal(unix.SIGTSTP))
	var ws unix.WaitStatus
	_, err = unix.Wait4(l.Process.Pid, &ws, unix.WUNTRACED, nil)
	require.NoError(t, err)
	require.True(t, ws.Stopped())
	for state(t, pid) != "T" {
		runtime.Gosched()
	}
	require.NoError(t, l.Process.Signal(unix.SIGCONT))
	for state(t, pid) == "T" {
		runtime.Gosched()
	}
	require.NoError(t, l.Process.Signal(unix.SIGTERM))
	l.ends(t, 128+int(unix.SIGTERM))
	_, err = os.Stat("/proc/" + pid)
	require.ErrorIs(t, err, os.ErrNotExist)
}

// openTerminal opens a pseudo-terminal: input typed at the first is read from the second.
func openTerminal(t *testing.T) (master, slave *os.File) {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { slave.Close(); master.Close() })
	return master, slave
}

// shows reads from a terminal until it has shown text.
func shows(t *testing.T, master *os.File, text string) {
	t.Helper()
	var all []byte
	buf := make([]byte, 256)
	for !bytes.Contains(all, []byte(text)) {
		n, err := master.Read(buf)
		require.NoError(t, err, "shown so far: %q", all)
		all = append(all, buf[:n]...)
		require.NotContains(t, string(all), "Stopped")
	}
}

// A job in the background runs, and leaves the terminal's input to the shell; in the foreground its
// rank 0 gets it. The shell reports stopped jobs.
func TestRunInBackground(t *testing.T) {
	master, slave := openTerminal(t)
	self, err := os.Executable()
	require.NoError(t, err)
	shell := exec.Command("sh", "-c", `set -m; "$@" & sleep 0.3; jobs; read go; echo shell got $go; fg`,
		"sh", self, "run", "--", "sh", "-c", `sleep 0.5; echo started; read x; echo rank got $x`)
	shell.Stdin, shell.Stdout, shell.Stderr = slave, slave, slave
	shell.SysProcAttr = &unix.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, shell.Start())
	shows(t, master, "started")
	_, err = io.WriteString(master, "one\n")
	require.NoError(t, err)
	shows(t, master, "shell got one")
	_, err = io.WriteString(master, "two\n")
	require.NoError(t, err)
	shows(t, master, "rank got two")
	require.NoError(t, shell.Wait())
}

// On a terminal the launcher shows how many ranks have joined while it waits for the others.
func TestRunShowsASlowStart(t *testing.T) {
	master, slave := openTerminal(t)
	self, err := os.Executable()
	require.NoError(t, err)
	fifo := filepath.Join(t.TempDir(), "late")
	require.NoError(t, unix.Mkfifo(fifo, 0o600))
	job := exec.Command(self, "run", "-n", "2", "--", "sh", "-c", `[ "$PMI_RANK" = 0 ] || read go <"$1"; exec "$0" osu hello`, self, fifo)
	job.Stdout, job.Stderr = slave, slave
	require.NoError(t, job.Start())
	shows(t, master, "banyan: 1 of 2 ranks have joined")
	require.NoError(t, os.WriteFile(fifo, []byte("go\n"), 0o600))
	require.NoError(t, job.Wait())
}
