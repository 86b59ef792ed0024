package hook

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/internal/exits"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// held has one thread of a process stop where it has started to end, so that the
// process cannot end before it is let go. Preconditions: the calling goroutine is
// locked to its thread, to which the kernel will speak of the process.
type held struct {
	t           *testing.T
	a           *actor
	tid, pidfd  int
	entriesThen uint64
	h           *Hook
}

func hold(t *testing.T, h *Hook, a *actor) held {
	t.Helper()
	tids, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", a.pid()))
	require.NoError(t, err)
	require.Greater(t, len(tids), 3)
	tid := a.pid()
	for i := 0; tid == a.pid(); i++ {
		tid, err = strconv.Atoi(tids[i].Name())
		require.NoError(t, err)
	}
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(tid), 0, unix.PTRACE_O_TRACEEXIT, 0, 0)
	require.Zero(t, errno)
	pidfd, err := unix.PidfdOpen(a.pid(), unix.PIDFD_NONBLOCK)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Close(pidfd)) })
	return held{t, a, tid, pidfd, entries(t, h), h}
}

// alive asserts that the process has not ended, its thread being held.
func (d held) alive() {
	d.t.Helper()
	var status unix.WaitStatus
	_, err := unix.Wait4(d.tid, &status, unix.WALL, nil)
	require.NoError(d.t, err)
	require.Equal(d.t, unix.PTRACE_EVENT_EXIT, int(status)>>16, "%#x", status)
	require.False(d.t, d.over(0))
}

// over waits for the end of the last thread.
func (d held) over(patienceMs int) bool {
	n, err := 0, error(unix.EINTR) // as by the runtime's own signals
	for errors.Is(err, unix.EINTR) {
		n, err = unix.Poll([]unix.PollFd{{Fd: int32(d.pidfd), Events: unix.POLLIN}}, patienceMs)
	}
	require.NoError(d.t, err)
	return n == 1
}

// letGo has the process end, of which there was one entry and no more come.
func (d held) letGo() {
	d.t.Helper()
	require.NoError(d.t, unix.PtraceCont(d.tid, 0))
	var status unix.WaitStatus
	_, err := unix.Wait4(d.tid, &status, unix.WALL, nil)
	require.NoError(d.t, err)
	require.True(d.t, d.over(patienceMs))
	require.Equal(d.t, d.entriesThen+1, entries(d.t, d.h))
}

// release has the process end also where the test has failed.
func (d held) release() {
	d.t.Helper()
	if unix.PtraceDetach(d.tid) == nil || d.over(0) {
		return
	}
	_ = d.a.Process.Kill()
	_, _ = unix.Wait4(d.tid, nil, unix.WALL, nil) // until it is at the place where it stops
	_ = unix.PtraceDetach(d.tid)
}

// An end that has been decided for all threads is recorded when the first one of them has ended, by
// any kernel.
func TestDecidedIsToldBeforeTheLastThreadEnds(t *testing.T) {
	for name, l := range kernels {
		t.Run(name, func(t *testing.T) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			h, tab := opened(t, l)
			if h == nil {
				return
			}
			for _, c := range []struct {
				why  string
				does func(*actor) error
				want proc.Cause
			}{
				{"exit_group by a thread", func(a *actor) error { return a.in.Close() }, exited(7)},
				{"SIGKILL", func(a *actor) error { return unix.Kill(a.pid(), unix.SIGKILL) }, killed(unix.SIGKILL)},
			} {
				t.Log(c.why)
				a := registered(t, h, player("threads"))
				a.line(t)
				endHeld(t, h, tab, a, c.does, c.want)
			}
		})
	}
}

func endHeld(t *testing.T, h *Hook, tab *exits.Table, a *actor, does func(*actor) error, want proc.Cause) {
	t.Helper()
	d := hold(t, h, a)
	defer d.release()
	require.NoError(t, does(a))
	require.Equal(t, want, mustEnd(t, tab, a.pid()))
	d.alive()
	d.letGo()
}

// A signal that is fatal to many threads has been recorded when kill(2) returns.
func TestFatalSignalIsToldAtOnce(t *testing.T) {
	h, tab := opened(t, lacks{})
	if h == nil {
		return
	}
	require.NoError(t, h.unseen)
	for _, c := range []struct {
		how  string
		kill func(pid int) error
		want syscall.Signal
	}{
		{"process", func(pid int) error { return unix.Kill(pid, unix.SIGKILL) }, unix.SIGKILL},
		{"thread", func(pid int) error { return unix.Tgkill(pid, pid, unix.SIGKILL) }, unix.SIGKILL},
		{"twice", func(pid int) error {
			_ = unix.Kill(pid, unix.SIGKILL)
			return unix.Kill(pid, unix.SIGKILL)
		}, unix.SIGKILL},
	} {
		a := registered(t, h, fat(64))
		a.line(t)
		before := entries(t, h)
		require.NoError(t, c.kill(a.pid()))
		cause, ended := tab.Ended(a.pid())
		require.True(t, ended, c.how)
		require.Equal(t, killed(c.want), cause, c.how)
		require.Error(t, a.Wait())
		require.Equal(t, before+1, entries(t, h), c.how)
		require.NoError(t, h.Forget(a.pid()))
		require.Equal(t, before+1, entries(t, h), c.how)
	}
	// Another signal, to which a shell has no answer.
	a := registered(t, h, shell("exit 3"))
	require.NoError(t, unix.Kill(a.pid(), unix.SIGUSR1))
	require.Equal(t, killed(unix.SIGUSR1), mustEnd(t, tab, a.pid()))
}

// A holder of the descriptors sees signals without the loader too.
func TestFatalSignalWithoutLoader(t *testing.T) {
	if h, _ := opened(t, lacks{}); h == nil {
		return
	}
	h, err := Open()
	require.NoError(t, err)
	tab, err := tableOf(h)
	require.NoError(t, err)
	a := registered(t, h, fat(64))
	a.line(t)
	require.NoError(t, h.Close())
	require.NoError(t, a.Process.Kill())
	cause, ended := tab.Ended(a.pid())
	require.True(t, ended)
	require.Equal(t, killed(unix.SIGKILL), cause)
	require.NoError(t, tab.Close())
}

// Signals that end no process.
func TestHarmlessSignals(t *testing.T) {
	h, tab := opened(t, lacks{})
	if h == nil {
		return
	}
	lives := func(a *actor, said string) {
		t.Helper()
		require.Equal(t, said, a.line(t))
		_, ended := tab.Ended(a.pid())
		require.False(t, ended)
	}
	handles := registered(t, h, player("handler"))
	lives(handles, "ready")
	require.NoError(t, handles.Process.Signal(unix.SIGTERM))
	lives(handles, "terminated")
	// The first process of a namespace is not killed by those in it.
	cmd := exec.Command("/bin/sh", "-c", "sh -c 'kill -KILL 1'; kill -KILL 1; echo alive; read x; exit 4")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID}
	first := registered(t, h, cmd)
	lives(first, "alive")
	// SIGKILL to a thread that has ended.
	led := registered(t, h, player("leader"))
	lives(led, "the first thread is gone")
	require.NoError(t, unix.Tgkill(led.pid(), led.pid(), unix.SIGKILL))
	_, ended := tab.Ended(led.pid())
	require.False(t, ended)
	for a, want := range map[*actor]proc.Cause{handles: exited(6), first: exited(4), led: exited(9)} {
		require.NoError(t, a.in.Close())
		require.Equal(t, want, mustEnd(t, tab, a.pid()))
	}
	// From outside of its namespace it is.
	cmd = exec.Command("/bin/sh", "-c", "echo up; read x")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID}
	first = registered(t, h, cmd)
	first.line(t)
	require.NoError(t, first.Process.Kill())
	require.Equal(t, killed(unix.SIGKILL), mustEnd(t, tab, first.pid()))
}

// One thread's exec ends the others, and the process continues; a kill then ends it.
func TestExecThenKill(t *testing.T) {
	h, tab := opened(t, lacks{})
	if h == nil {
		return
	}
	for range 20 {
		a := registeredToExec(t, h)
		before := entries(t, h)
		a.execs(t)
		require.Equal(t, before+1, entries(t, h))
		require.NoError(t, a.Process.Kill())
		require.Equal(t, killed(unix.SIGKILL), mustEnd(t, tab, a.pid()))
	}
}

// Programs of many threads that crash.
func TestCrashes(t *testing.T) {
	for name, l := range kernels {
		t.Run(name, func(t *testing.T) {
			h, tab := opened(t, l)
			if h == nil {
				return
			}
			for _, by := range []syscall.Signal{unix.SIGSEGV, unix.SIGABRT} {
				cmd := player("crash")
				cmd.Args = append(cmd.Args, strconv.Itoa(int(by)))
				a := registered(t, h, cmd)
				before := entries(t, h)
				require.NoError(t, a.in.Close())
				require.Equal(t, killed(by), mustEnd(t, tab, a.pid()))
				require.Error(t, a.Wait())
				require.Equal(t, before+1, entries(t, h))
			}
		})
	}
}

// The end of a thread is no end, also not while others end the process.
func TestThreadsEndOneByOne(t *testing.T) {
	h, tab := opened(t, lacks{})
	if h == nil {
		return
	}
	a := registered(t, h, player("threads"))
	a.line(t)
	before := entries(t, h)
	_, err := a.in.Write([]byte("x"))
	require.NoError(t, err)
	require.Equal(t, "some have ended", a.line(t))
	_, ended := tab.Ended(a.pid())
	require.False(t, ended)
	require.NoError(t, a.in.Close())
	require.Equal(t, exited(7), mustEnd(t, tab, a.pid()))
	require.Error(t, a.Wait())
	require.Equal(t, before+1, entries(t, h))
}
