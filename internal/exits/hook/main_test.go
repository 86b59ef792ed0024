package hook

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/internal/exits"
	"github.com/banyan-hpc/banyan/internal/proc"
)

const (
	// without set to 1 lets tests pass that lack the privileges.
	without = "BANYAN_NO_BPF"
	// role makes a process of this binary do one thing instead of the tests.
	role = "BANYAN_HOOK_TEST_ROLE"
	// patienceMs bounds the wait for expected events: only a test that fails waits so long.
	patienceMs = 30_000
)

func init() { runtime.LockOSThread() } // so that main runs in the first thread

func TestMain(m *testing.M) {
	does := os.Getenv(role)
	if does == "" {
		runtime.UnlockOSThread()
		os.Exit(m.Run())
	}
	if err := os.Unsetenv(role); err != nil {
		panic(err)
	}
	roles := map[string]func() error{
		"threads": playThreads, "leader": playLeader, "exec": playExec,
		"reader": playReader, "launcher": playLauncher, "nested": playNested, "fat": playFat,
		"handler": playHandler, "crash": playCrash,
	}
	if err := roles[does](); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// opened makes a hook and a table of it. Without the privileges the test fails, or
// gets nil and returns where the user has asked for that.
func opened(t testing.TB, l lacks) (*Hook, *exits.Table) {
	t.Helper()
	h, err := open(l)
	if err != nil && os.Getenv(without) == "1" {
		fmt.Fprintf(os.Stderr, "NOT TESTED: %s: %s=1 and %v\n", t.Name(), without, err)
		return nil, nil
	}
	require.NoError(t, err, "%s=1 leaves these tests out", without)
	t.Cleanup(func() { require.NoError(t, h.Close()) })
	tab, err := tableOf(h)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tab.Close()) })
	return h, tab
}

func tableOf(h *Hook) (*exits.Table, error) {
	var fds []int
	for _, f := range h.Files() {
		fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return nil, err
		}
		fds = append(fds, fd)
	}
	return exits.New(fds)
}

// actor is a process with its input and output.
type actor struct {
	*exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func begin(cmd *exec.Cmd) (*actor, error) {
	a := &actor{Cmd: cmd}
	cmd.Stderr = os.Stderr
	var err error
	if a.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	a.out = bufio.NewReader(out)
	return a, cmd.Start()
}

// start begins a command that ends with the test.
func start(t testing.TB, cmd *exec.Cmd) *actor {
	t.Helper()
	a, err := begin(cmd)
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = a.Process.Kill()
		_ = a.Wait()
	})
	return a
}

// shell begins a shell that does something when its input ends.
func shell(does string) *exec.Cmd { return exec.Command("/bin/sh", "-c", "read x; "+does) }

// player begins this binary in a role.
func player(does string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe") // the file's folder may be closed to other users
	cmd.Env = append(os.Environ(), role+"="+does)
	return cmd
}

// fat is a Go program, of many threads, with memory.
func fat(megabytes int) *exec.Cmd {
	cmd := player("fat")
	cmd.Args = append(cmd.Args, strconv.Itoa(megabytes))
	return cmd
}

// reader begins a process that has a hook's descriptors.
func reader(h *Hook) *exec.Cmd {
	cmd := player("reader")
	cmd.Args = append(cmd.Args, strconv.Itoa(len(h.Files())))
	cmd.ExtraFiles = h.Files()
	return cmd
}

func (a *actor) pid() int { return a.Process.Pid }

func (a *actor) line(t testing.TB) string {
	t.Helper()
	s, err := a.out.ReadString('\n')
	require.NoError(t, err)
	return strings.TrimSpace(s)
}

func registered(t testing.TB, h *Hook, cmd *exec.Cmd) *actor {
	t.Helper()
	a := start(t, cmd)
	require.NoError(t, h.Register(a.pid()))
	return a
}

// registeredToExec registers a process in the role "exec" and waits for it: before Linux 6.10 the kernel reports the exec
// that starts a process after the caller knows that it has succeeded, so possibly after the registration.
func registeredToExec(t *testing.T, h *Hook) *actor {
	t.Helper()
	a := registered(t, h, player("exec"))
	require.Equal(t, "ready", a.line(t))
	return a
}

// execs has one in the role "exec" become another program.
func (a *actor) execs(t *testing.T) {
	t.Helper()
	_, err := a.in.Write([]byte("x"))
	require.NoError(t, err)
	require.Equal(t, "other", a.line(t))
}

var errPatience = errors.New("the end of the process is not told")

// await sleeps at the bell until a process has ended.
func await(tab *exits.Table, pid int) (proc.Cause, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return proc.Cause{}, err
	}
	defer unix.Close(epoll)
	event := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET}
	if err := unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, tab.FD(), &event); err != nil {
		return proc.Cause{}, err
	}
	return sleep(epoll, tab, pid)
}

func sleep(epoll int, tab *exits.Table, pid int) (proc.Cause, error) {
	for {
		if cause, ended := tab.Ended(pid); ended {
			return cause, nil
		}
		n, err := unix.EpollWait(epoll, make([]unix.EpollEvent, 1), patienceMs)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return proc.Cause{}, err
		}
		if n == 0 {
			return proc.Cause{}, errPatience
		}
	}
}

func mustEnd(t testing.TB, tab *exits.Table, pid int) proc.Cause {
	t.Helper()
	cause, err := await(tab, pid)
	require.NoError(t, err)
	return cause
}

func exited(code int32) proc.Cause { return proc.Cause{Kind: proc.Exited, Code: code} }

func killed(by syscall.Signal) proc.Cause { return proc.Cause{Kind: proc.Signaled, Code: int32(by)} }
