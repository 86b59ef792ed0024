package detection

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"bytes"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/exits/hook"
	"github.com/banyan-hpc/banyan/internal/launch"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// overEnv names a file that ranks create at the end of the test; processes that outlast a rank end
// then. causeEnv is the cause that survivors expect in the error.
const (
	overEnv  = "BANYAN_TEST_OVER"
	causeEnv = "BANYAN_TEST_CAUSE"
)

// lastsUntilOver waits for overEnv, for a limited time; then it leaves a mark.
const lastsUntilOver = `n=0; until test -e "$BANYAN_TEST_OVER"; do
	n=$((n+1)); if test $n -gt 600; then : >"$BANYAN_TEST_OVER.late"; exit 1; fi; sleep 0.1; done`

// survivesTheLast waits for the failure of the last rank, and ends the test.
func survivesTheLast(w *banyan.World) error {
	c := w.Comm()
	err := ranktest.BarrierUntilError(c)
	if err := ranktest.WantFailure("barrier", err); err != nil {
		return err
	}
	if want := os.Getenv(causeEnv); want != "" && !strings.Contains(err.Error(), want) {
		return fmt.Errorf("want the cause %q, got: %w", want, err)
	}
	if c.Rank() == 0 {
		return os.WriteFile(os.Getenv(overEnv), nil, 0o600)
	}
	return nil
}

// execs has the last rank call exec.
func execs(w *banyan.World) error {
	c := w.Comm()
	if c.Rank() < c.Size()-1 {
		return survivesTheLast(w)
	}
	if err := c.Barrier(); err != nil {
		return err
	}
	return syscall.Exec("/bin/sh", []string{"sh", "-c", lastsUntilOver}, os.Environ())
}

// TestExecIsAFailure: survivors learn of a rank that has called exec while the new program runs,
// with and without the kernel's record of deaths, and not by silence.
func TestExecIsAFailure(t *testing.T) {
	kernel, why := hook.Available()
	for name, c := range map[string]struct {
		exits bool
		env   []string
	}{
		"shm": {env: []string{"BANYAN_FABRIC=shm"}}, "tcp": {env: []string{"BANYAN_FABRIC=tcp"}},
		"shm, recorded": {true, []string{"BANYAN_FABRIC=shm", causeEnv + "=called exec"}},
		"tcp, recorded": {true, []string{"BANYAN_FABRIC=tcp"}},
	} {
		t.Run(name, func(t *testing.T) {
			spec := launch.Spec{}
			if c.exits {
				if !kernel && os.Getenv("BANYAN_NO_BPF") == "1" {
					fmt.Fprintf(os.Stderr, "NOT TESTED: %s: BANYAN_NO_BPF=1 and %s\n", t.Name(), why)
					return
				}
				require.True(t, kernel, "%s\n(BANYAN_NO_BPF=1 leaves this test out)", why)
				spec.Exits = func() (launch.Exits, error) { return hook.Open() }
			}
			runUntilOver(t, &spec, "execs", append(c.env, "BANYAN_DETECT=off")...)
		})
	}
}

// runUntilOver runs three ranks in a role in which the last one fails, and checks that the others
// survive it.
func runUntilOver(t *testing.T, spec *launch.Spec, role string, env ...string) *launch.Result {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	var out bytes.Buffer
	over := filepath.Join(t.TempDir(), "over")
	spec.N, spec.Argv, spec.Stdout, spec.Stderr, spec.OnFailure = 3, []string{exe}, io.Discard, &out, launch.Continue
	spec.Env = append(append(os.Environ(), ranktest.RoleEnv+"="+role, overEnv+"="+over), env...)
	res, err := launch.Run(t.Context(), *spec)
	require.NoError(t, err)
	for _, e := range res.Ends {
		require.Equal(t, e.Rank == 2, e.Failed(), "%v\n%s", e, &out)
	}
	require.NoFileExists(t, over+".late", out.String())
	return res
}

// fork creates a child of the calling thread alone, with all descriptors and mappings. It only
// waits for the file overEnv and exits. Nothing of Go's runtime works in it.
func fork() error {
	path, err := unix.BytePtrFromString(os.Getenv(overEnv))
	if err != nil {
		return err
	}
	pause := unix.Timespec{Nsec: 50_000_000}
	at := unix.AT_FDCWD
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	child, _, errno := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 {
		return errno
	}
	for i := 0; child == 0; i++ {
		_, _, errno := unix.RawSyscall(unix.SYS_FACCESSAT, uintptr(at), uintptr(unsafe.Pointer(path)), 0)
		if errno == 0 || i == 1200 {
			_, _, _ = unix.RawSyscall(unix.SYS_EXIT_GROUP, uintptr(errno), 0, 0)
		}
		_, _, _ = unix.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&pause)), 0, 0)
	}
	return nil
}

// forks has the last rank create a child, and die while the child lives on with its descriptors.
func forks(w *banyan.World) error {
	c := w.Comm()
	last := c.Rank() == c.Size()-1
	if err := c.Barrier(); err != nil {
		return err
	}
	if last {
		if err := fork(); err != nil {
			return err
		}
	}
	for range 1000 {
		if err := c.Barrier(); err != nil {
			return err
		}
	}
	if last {
		return syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	return survivesTheLast(w)
}

// TestDeathOfARankThatHasForked: a fork is no failure, and the rank's own death is known though its
// child keeps all connections open.
func TestDeathOfARankThatHasForked(t *testing.T) {
	for _, fabric := range []string{"shm", "unix", "tcp"} {
		t.Run(fabric, func(t *testing.T) {
			runUntilOver(t, &launch.Spec{}, "forks", append(ranktest.Quick, "BANYAN_FABRIC="+fabric)...)
		})
	}
}

// runsCommands has all ranks run a command while they communicate. The last rank runs one that
// outlasts it.
func runsCommands(w *banyan.World) error {
	c := w.Comm()
	long := exec.Command("/bin/sh", "-c", lastsUntilOver)
	if c.Rank() == c.Size()-1 {
		if err := long.Start(); err != nil {
			return err
		}
	}
	for range 20 {
		if err := errors.Join(exec.Command("/bin/true").Run(), c.Barrier()); err != nil {
			return err
		}
	}
	if c.Rank() == c.Size()-1 {
		return syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	return survivesTheLast(w)
}

// TestRanksThatRunCommands: os/exec causes no failure, and a started command does not hide one.
func TestRanksThatRunCommands(t *testing.T) {
	for _, fabric := range []string{"shm", "unix", "tcp"} {
		t.Run(fabric, func(t *testing.T) {
			runUntilOver(t, &launch.Spec{}, "runs commands", "BANYAN_FABRIC="+fabric, "BANYAN_DETECT=off")
		})
	}
}

// hangs stops all goroutines of the last rank, without an end of its process or of a thread.
func hangs(w *banyan.World) error {
	c := w.Comm()
	if c.Rank() < c.Size()-1 {
		return survivesTheLast(w)
	}
	if err := c.Barrier(); err != nil {
		return err
	}
	runtime.GOMAXPROCS(1)
	runtime.LockOSThread()
	var all unix.Sigset_t // the scheduler takes its processor back by a signal
	for i := range all.Val {
		all.Val[i] = ^all.Val[i]
	}
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &all, nil); err != nil {
		return err
	}
	minute := unix.Timespec{Sec: 60}
	_, _, _ = unix.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&minute)), 0, 0)
	_ = os.WriteFile(os.Getenv(overEnv)+".late", nil, 0o600)
	os.Exit(1)
	return nil
}

// TestHangingIsExcusedForAWhile: a silent process that the kernel reports as running counts as
// alive, for a limited time.
func TestHangingIsExcusedForAWhile(t *testing.T) {
	t.Parallel() // it waits
	began := time.Now()
	res := runUntilOver(t, &launch.Spec{}, "hangs", "BANYAN_FABRIC=shm", "BANYAN_DETECT_PERIOD=100ms",
		"BANYAN_DETECT_TIMEOUT=1s",
		causeEnv+"=silent for longer than detect.timeout, and killed for that")
	require.Equal(t, unix.SIGKILL, res.Ends[2].Signal)
	require.Greater(t, time.Since(began), 10*time.Second, "excused")
}
