package hook

import (
	"encoding/binary"
	"os/exec"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/internal/exits"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// kernels are those on which ends are seen in different ways.
var kernels = map[string]lacks{
	"now": {}, "no signals": {signals: true}, "before 6.16": {lastThread: true, signals: true},
}

func TestEnds(t *testing.T) {
	for name, l := range kernels {
		t.Run(name, func(t *testing.T) {
			h, tab := opened(t, l)
			if h == nil {
				return
			}
			for _, c := range []struct {
				does string
				want proc.Cause
			}{
				{"exit 0", exited(0)}, {"exit 3", exited(3)}, {"exit 255", exited(255)},
				{"kill -KILL $$", killed(unix.SIGKILL)}, {"kill -TERM $$", killed(unix.SIGTERM)},
				{"kill -SEGV $$", killed(unix.SIGSEGV)},
			} {
				a := registered(t, h, shell(c.does))
				require.True(t, tab.Watched(a.pid()))
				_, ended := tab.Ended(a.pid())
				require.False(t, ended)
				require.NoError(t, a.in.Close())
				require.Equal(t, c.want, mustEnd(t, tab, a.pid()), c.does)
				require.False(t, tab.Watched(a.pid())) // the pid may be another's by now
			}
			a := registered(t, h, player("threads"))
			require.NoError(t, a.in.Close())
			require.Equal(t, exited(7), mustEnd(t, tab, a.pid()), "by one of many threads")
		})
	}
}

// A process lives while a thread of it does, be it without its first one.
func TestFirstThreadEnds(t *testing.T) {
	h, tab := opened(t, lacks{})
	if h == nil {
		return
	}
	a := registered(t, h, player("leader"))
	require.Equal(t, "the first thread is gone", a.line(t))
	_, ended := tab.Ended(a.pid())
	require.False(t, ended)
	require.NoError(t, a.in.Close())
	require.Equal(t, exited(9), mustEnd(t, tab, a.pid()))
}

// A process that calls exec has not ended, and is another program from then on.
func TestExec(t *testing.T) {
	for name, l := range map[string]lacks{"now": {}, "before 6.10": {lateExec: true}} {
		t.Run(name, func(t *testing.T) {
			h, tab := opened(t, l)
			if h == nil {
				return
			}
			a := registeredToExec(t, h)
			before := tab.Execs(a.pid())
			require.True(t, before == 0 || l.lateExec && before == 1, before)
			a.execs(t)
			require.Equal(t, before+1, tab.Execs(a.pid())) // by a thread of which it is the only call
			_, ended := tab.Ended(a.pid())
			require.False(t, ended)
			require.True(t, tab.Watched(a.pid()))
			require.NoError(t, a.in.Close())
			require.Equal(t, exited(5), mustEnd(t, tab, a.pid()))
			require.Equal(t, before+1, tab.Execs(a.pid()))
		})
	}
}

// Of a process that calls exec for ever the first calls are recorded, and its end.
func TestExecForEver(t *testing.T) {
	h, tab := opened(t, lacks{})
	if h == nil {
		return
	}
	const script = `n=$1; test "$n" = 0 && exit 6; exec /bin/sh -c "$0" "$0" $((n - 1))`
	a := registered(t, h, shell(`exec /bin/sh -c '`+script+`' '`+script+`' 20`))
	require.NoError(t, a.in.Close())
	require.Equal(t, exited(6), mustEnd(t, tab, a.pid()))
	require.EqualValues(t, exits.MostExecs, tab.Execs(a.pid()))
}

// A process of a namespace below is known by its pid here.
func TestNamespaceBelow(t *testing.T) {
	h, tab := opened(t, lacks{})
	if h == nil {
		return
	}
	cmd := shell("exit 4")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID}
	a := registered(t, h, cmd)
	require.NoError(t, a.in.Close())
	require.Equal(t, exited(4), mustEnd(t, tab, a.pid()))
}

// The loader may itself be in a namespace, and pids come back.
func TestLoaderInNamespaceAndPidUsedAgain(t *testing.T) {
	if h, _ := opened(t, lacks{}); h == nil {
		return
	}
	cmd := player("nested")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID}
	a := start(t, cmd)
	require.Equal(t, "exited with code 3 without finalizing <nil>", a.line(t))
	require.Equal(t, "level 1 ended before true after false", a.line(t))
	require.Equal(t, "exited with code 4 without finalizing <nil>", a.line(t))
}

func TestStrangersLeaveNoTrace(t *testing.T) {
	h, tab := opened(t, lacks{})
	if h == nil {
		return
	}
	var pids []int
	for range 1000 {
		cmd := exec.Command("/bin/true")
		require.NoError(t, cmd.Run())
		pids = append(pids, cmd.Process.Pid)
	}
	require.Zero(t, entries(t, h))
	for _, pid := range pids {
		require.False(t, tab.Watched(pid))
	}
}

// entries is the number of entries in the log.
func entries(t *testing.T, h *Hook) uint64 {
	t.Helper()
	value, err := h.log.LookupBytes(uint32(0))
	require.NoError(t, err)
	return binary.NativeEndian.Uint64(value[exits.HeadAt:])
}

// A process that ended while it was being registered is recorded by Forget.
func TestEndedBeforeRegistered(t *testing.T) {
	h, tab := opened(t, lacks{})
	if h == nil {
		return
	}
	a := start(t, shell("exit 3"))
	require.NoError(t, a.in.Close())
	require.NoError(t, unix.Waitid(unix.P_PID, a.pid(), nil, unix.WEXITED|unix.WNOWAIT, nil))
	require.NoError(t, h.Register(a.pid()))
	_, ended := tab.Ended(a.pid())
	require.False(t, ended)
	require.NoError(t, h.Forget(a.pid()))
	require.Equal(t, proc.Cause{Kind: proc.Unknown}, mustEnd(t, tab, a.pid()))
	require.Zero(t, h.Live())
}

func TestWithdrawn(t *testing.T) {
	h, tab := opened(t, lacks{})
	if h == nil {
		return
	}
	a, b := registered(t, h, shell("exit 3")), registered(t, h, shell("exit 4"))
	require.NoError(t, h.Withdraw(a.pid()))
	require.False(t, tab.Watched(a.pid()))
	require.NoError(t, a.in.Close())
	require.Error(t, a.Wait())
	require.NoError(t, b.in.Close())
	mustEnd(t, tab, b.pid())
	_, ended := tab.Ended(a.pid())
	require.False(t, ended)
}

// The bell is never read, and still wakes after more entries than it, and the log, have room for.
func TestBellNeverFills(t *testing.T) {
	h, tab := opened(t, lacks{})
	if h == nil {
		return
	}
	a := registered(t, h, shell("exit 3"))
	require.True(t, tab.Watched(a.pid()))
	other := start(t, shell("exit 4"))
	for range exits.Entries {
		require.NoError(t, h.Register(other.pid()))
		require.NoError(t, h.Withdraw(other.pid()))
	}
	done := make(chan error, 1)
	asleep := make(chan struct{})
	go func() {
		close(asleep)
		cause, err := await(tab, a.pid())
		if err == nil && cause != exited(3) {
			err = errPatience
		}
		done <- err
	}()
	<-asleep
	require.NoError(t, a.in.Close())
	require.NoError(t, <-done)
	require.EqualValues(t, 2*exits.Entries+2, entries(t, h))
	late, err := tableOf(h)
	require.NoError(t, err)
	require.Equal(t, exited(3), mustEnd(t, late, a.pid()))
	require.NoError(t, late.Close())
}

// A reader without privileges reads, and changes nothing.
func TestUnprivilegedReader(t *testing.T) {
	h, _ := opened(t, lacks{})
	if h == nil {
		return
	}
	victim := registered(t, h, shell("kill -KILL $$"))
	cmd := reader(h)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	r := start(t, cmd)
	require.Equal(t, "user 65534", r.line(t))
	require.Equal(t, "map for writing: operation not permitted", r.line(t))
	require.Equal(t, "map for writing: <nil>", r.line(t), "the reader's page of the bell: package comment")
	require.Equal(t, "make the mapping writable: permission denied", r.line(t))
	require.Equal(t, "change by a system call: operation not permitted", r.line(t))
	_, err := r.in.Write([]byte(strconv.Itoa(victim.pid()) + "\n"))
	require.NoError(t, err)
	require.NoError(t, victim.in.Close())
	require.Equal(t, "killed by SIGKILL <nil>", r.line(t))
}

// The death of the process that loaded the program changes nothing for readers.
func TestLauncherKilled(t *testing.T) {
	if h, _ := opened(t, lacks{}); h == nil {
		return
	}
	l := start(t, player("launcher"))
	victim, err := strconv.Atoi(l.line(t))
	require.NoError(t, err)
	for range 5 {
		l.line(t) // the reader's attempts
	}
	require.NoError(t, l.Process.Kill())
	require.NoError(t, unix.Waitid(unix.P_PID, l.pid(), nil, unix.WEXITED|unix.WNOWAIT, nil))
	_, err = l.in.Write([]byte(strconv.Itoa(victim) + "\n"))
	require.NoError(t, err)
	require.NoError(t, unix.Kill(victim, unix.SIGKILL))
	require.Equal(t, "killed by SIGKILL <nil>", l.line(t))
	require.NoError(t, l.in.Close())
}

func TestAvailable(t *testing.T) {
	if h, _ := opened(t, lacks{}); h == nil {
		return
	}
	ok, why := Available()
	require.True(t, ok, why)
	require.Contains(t, why, "signal_generate")
	h, _ := opened(t, lacks{signals: true, lastThread: true, exec: true})
	require.Len(t, h.Files(), exits.MinFiles)
	require.Contains(t, h.how(), "only when a thread has died of it")
	require.Contains(t, h.how(), "Linux 6.16")
}

// The two entries of a process agree about its name, also where its namespace
// could not be seen when it was registered.
func TestNames(t *testing.T) {
	h, tab := opened(t, lacks{})
	if h == nil {
		return
	}
	for _, seen := range []bool{true, false} {
		cmd := shell("exit 4")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID}
		a := start(t, cmd)
		before := entries(t, h)
		require.NoError(t, h.Register(a.pid()))
		inner, space := nameIn(t, h, before)
		require.EqualValues(t, 1, inner)
		require.NotEqual(t, h.space, space)
		if !seen {
			require.NoError(t, h.live.Put(uint32(a.pid()), uint32(0)))
			inner, space = 0, 0
		}
		require.NoError(t, a.in.Close())
		mustEnd(t, tab, a.pid())
		gotInner, gotSpace := nameIn(t, h, before+1)
		require.Equal(t, inner, gotInner)
		require.Equal(t, space, gotSpace)
	}
}

// nameIn reads the name that an entry has.
func nameIn(t *testing.T, h *Hook, i uint64) (inner, space uint32) {
	t.Helper()
	value, err := h.log.LookupBytes(uint32(0))
	require.NoError(t, err)
	at := value[exits.EntriesAt+i*exits.EntrySize:]
	return binary.NativeEndian.Uint32(at[exits.InnerAt:]), binary.NativeEndian.Uint32(at[exits.EntrySpace:])
}

// Several goroutines ask one table while processes end.
func TestConcurrentQuestions(t *testing.T) {
	h, tab := opened(t, lacks{})
	if h == nil {
		return
	}
	var pids []int
	for range 20 {
		pids = append(pids, registered(t, h, shell("exit 3")).pid())
	}
	done := make(chan proc.Cause)
	for range 4 {
		go func() {
			for _, pid := range pids {
				var cause proc.Cause
				for ended := false; !ended; runtime.Gosched() {
					cause, ended = tab.Ended(pid)
				}
				done <- cause
			}
		}()
	}
	for _, pid := range pids {
		require.NoError(t, unix.Kill(pid, unix.SIGKILL))
	}
	for range 4 * len(pids) {
		require.Equal(t, killed(unix.SIGKILL), <-done)
	}
}

// However many are registered, the bell has room for the ends of all of them.
func TestBellHasRoomForAll(t *testing.T) {
	h, _ := opened(t, lacks{})
	if h == nil {
		return
	}
	const none = 1 << 23 // and beyond: no process has such a pid
	for i := range MaxLive {
		require.NoError(t, h.Register(none+i))
		taken, rung := atomic.LoadUint64(position(h.ring.consumer)), atomic.LoadUint64(position(h.ring.producer))
		// The kernel leaves a byte free.
		require.GreaterOrEqual(t, bellSize-1-int(rung-taken), h.Live()*bellWord, "%d are registered", h.Live())
	}
	require.ErrorIs(t, h.Register(none-1), ErrFull)
}
