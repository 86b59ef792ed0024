package ranktest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/internal/launch"
)

// Quick is a detector for tests of silence. It is three times as fast as the default, and slow
// enough for a machine that is busy with other tests.
var Quick = []string{"BANYAN_DETECT_PERIOD=100ms", "BANYAN_DETECT_TIMEOUT=2s"}

// Steady is a detector for tests in which no rank falls silent. A rank without a core for longer
// than the timeout counts as failed.
var Steady = []string{"BANYAN_DETECT_PERIOD=100ms", "BANYAN_DETECT_TIMEOUT=5s"}

// ByFabric has the environments in which different fabrics join up to six processes.
var ByFabric = map[string][]string{"shm": nil, "tcp": {"BANYAN_FABRIC=tcp"}, "mixed": {Nodes("a;b;b;a;a;b")}}

// Job runs n ranks in a role and returns their ends and their standard error. With launch.Abort the
// first failed rank ends the others.
func Job(t testing.TB, onFailure launch.Policy, n int, role string, env ...string) (*launch.Result, string) {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	var out bytes.Buffer
	res, err := launch.Run(t.Context(), launch.Spec{
		N: n, Argv: []string{exe}, Env: append(append(os.Environ(), RoleEnv+"="+role), env...),
		Stdout: io.Discard, Stderr: &out, OnFailure: onFailure,
	})
	require.NoError(t, err)
	return res, out.String()
}

// Succeed runs a job of which no rank may fail.
func Succeed(t *testing.T, n int, role string, env ...string) {
	t.Helper()
	res, out := Job(t, launch.Abort, n, role, env...)
	for _, e := range res.Ends {
		require.False(t, e.Failed(), "%v\n%s", e, out)
	}
}

// JobsWithDeaths runs, over each of [ByFabric] and for each seed, a job of which one to deaths
// ranks kill themselves. No other rank may fail.
func JobsWithDeaths(t *testing.T, role string, n, deaths int, seeds ...uint64) {
	for name, env := range JoinedBy(ByFabric) {
		for _, seed := range seeds {
			t.Run(fmt.Sprint(name, " ", seed), func(t *testing.T) {
				env := append(append([]string{SeedEnv + "=" + strconv.FormatUint(seed, 10)}, env...), Steady...)
				res, out := Job(t, launch.Continue, n, role, env...)
				failed := 0
				for _, e := range res.Ends {
					if e.Failed() {
						require.Contains(t, e.String(), "SIGKILL", out)
						failed++
					}
				}
				require.LessOrEqual(t, failed, deaths, out)
				require.NotZero(t, failed, out)
			})
		}
	}
}

// LaunchRole is the life of a launcher: it runs n ranks in a role until it is killed.
func LaunchRole(role string, n int) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	os.Unsetenv(RoleEnv)
	_, err = launch.Run(context.Background(), launch.Spec{
		N: n, Argv: []string{exe}, Env: append(os.Environ(), RoleEnv+"="+role),
		Stdout: io.Discard, Stderr: os.Stderr,
	})
	return err
}

// KillSelfAt has this process kill itself when step has reached at, and looks more loads of step
// later: in the middle of another goroutine's work.
func KillSelfAt(step *atomic.Int64, at, looks int) {
	go func() {
		for step.Load() < int64(at) {
		}
		for range looks {
			step.Load()
		}
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // cannot fail
	}()
}

// AwaitStop waits until a process that was sent SIGSTOP has stopped. The signal stops its threads
// one by one, and the last ones may still answer.
func AwaitStop(pid int) error {
	for running := true; running; runtime.Gosched() {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		if err != nil {
			return err
		}
		running = false
		stopped := 0
		for _, file := range threads {
			b, err := os.ReadFile(file)
			_, state, _ := bytes.Cut(b, []byte(") "))
			switch {
			case bytes.HasPrefix(state, []byte("T")):
				stopped++
			case err == nil && !bytes.HasPrefix(state, []byte("Z")):
				running = true
			}
		}
		if !running && stopped == 0 {
			return fmt.Errorf("process %d has ended, not stopped", pid)
		}
	}
	return nil
}
