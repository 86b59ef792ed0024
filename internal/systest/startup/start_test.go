package startup

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/launch"
	"github.com/banyan-hpc/banyan/internal/launch/join"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// interpose passes this rank's requests to the launcher through before, which gets each line and
// may return a function to run after the line has been sent.
func interpose(before func(line string) (after func())) error {
	fd, err := strconv.Atoi(os.Getenv("PMI_FD"))
	if err != nil {
		return err
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := os.Setenv("PMI_FD", strconv.Itoa(fds[0])); err != nil {
		return err
	}
	launcher, self := os.NewFile(uintptr(fd), "launcher"), os.NewFile(uintptr(fds[1]), "self")
	go func() { _, _ = io.Copy(self, launcher) }()
	go func() {
		for r := bufio.NewReader(self); ; {
			line, err := r.ReadString('\n')
			after := before(line)
			if _, werr := io.WriteString(launcher, line); err != nil || werr != nil {
				return
			}
			if after != nil {
				after()
			}
		}
	}()
	return nil
}

// counted joins and leaves, and prints the number of values that it has asked the launcher for.
func counted() error {
	var gets atomic.Int64
	err := interpose(func(line string) func() {
		if strings.HasPrefix(line, "cmd=get ") {
			gets.Add(1)
		}
		return nil
	})
	if err != nil {
		return err
	}
	w, err := banyan.Init()
	if err != nil {
		return err
	}
	err = w.Finalize()
	fmt.Println(gets.Load())
	return err
}

// The number of requests of a job's start is linear in the number of ranks. The detector is off: it
// asks for the cards of its heartbeat peers if the start takes long.
func TestStartIsLinear(t *testing.T) {
	const n = 16
	exe, err := os.Executable()
	require.NoError(t, err)
	var out, errs bytes.Buffer
	res, err := launch.Run(t.Context(), launch.Spec{
		N: n, Argv: []string{exe}, Env: append(os.Environ(), ranktest.RoleEnv+"=counted", "BANYAN_DETECT=off"),
		Stdout: &out, Stderr: &errs, OnFailure: launch.Abort,
	})
	require.NoError(t, err)
	require.Zero(t, res.Code, errs.String())
	sum := 0
	for text := range strings.FieldsSeq(out.String()) {
		gets, err := strconv.Atoi(text)
		require.NoError(t, err)
		sum += gets
	}
	require.Len(t, strings.Fields(out.String()), n)
	// Each rank asks for the mapping and for the first rank's topology. The cards are in the memory of the node.
	require.Equal(t, n+(n-1), sum)
}

// fewFiles starts a rank that may open few more files than it has open.
func fewFiles() error {
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	limit.Cur = uint64(len(open) + 9)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	_, err = banyan.Init()
	return err
}

// A rank that may not open a file for each peer, which even a barrier needs, reports that at once.
func TestTooFewFiles(t *testing.T) {
	const n = 16
	res, out := ranktest.Job(t, launch.Continue, n, "few files")
	for _, e := range res.Ends {
		require.True(t, e.Failed(), out)
	}
	require.Equal(t, n, strings.Count(out, "a rank of 16 needs at least"), out)
	require.Contains(t, out, "raise the limit (ulimit -n)")
}

// stepEnv is the step of the start at which the rank of victimEnv is killed: an even step before a
// request to the launcher leaves, an odd one after it has left. 0 is before the first fence.
const (
	stepEnv   = "BANYAN_TEST_STEP"
	victimEnv = "BANYAN_TEST_VICTIM"
)

// deadStart is the whole life of a rank in a job of which one rank dies during the start.
func deadStart() error {
	if err := ranktest.Place(); err != nil {
		return err
	}
	doomed := os.Getenv("PMI_RANK") == os.Getenv(victimEnv)
	if doomed {
		if err := dieAtStep(); err != nil {
			return err
		}
	}
	w, err := banyan.Init()
	var missing *join.MissingError
	switch {
	case doomed && err == nil:
		fmt.Println("the start is over")
		return syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case errors.As(err, &missing):
		fmt.Println("missing", missing.Lost[0].Rank)
		return nil
	case err != nil:
		return err
	}
	if err := bereave(w); err != nil {
		return err
	}
	fmt.Println("started")
	return w.Finalize()
}

// dieAtStep has this rank killed during the start.
func dieAtStep() error {
	left, err := strconv.Atoi(os.Getenv(stepEnv))
	if err != nil {
		return err
	}
	fences := 0
	die := func() {
		fmt.Println("dies after fence", fences)
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // cannot fail
	}
	return interpose(func(line string) func() {
		fence := strings.HasPrefix(line, "cmd=barrier_in")
		if fences == 0 && !fence {
			return nil
		}
		if left == 0 {
			die()
		}
		if fence {
			fences++
		}
		left -= 2
		if left == -1 {
			return die
		}
		return nil
	})
}

// bereave checks that operations with the victim report its death, and that the others go on.
func bereave(w *banyan.World) error {
	c := w.Comm()
	victim, err := strconv.Atoi(os.Getenv(victimEnv))
	if err != nil {
		return err
	}
	_, recvErr := c.Recv(nil, victim, 1)
	for _, err := range []error{recvErr, c.Send(nil, victim, 1), c.Barrier()} {
		var failed *banyan.ProcFailedError
		if !errors.As(err, &failed) || !slices.Equal(failed.Ranks, []int{victim}) {
			return fmt.Errorf("want the failure of rank %d, got: %w", victim, err)
		}
	}
	alive, err := c.Group().Exclude(victim)
	if err != nil {
		return err
	}
	rest, err := c.CreateGroup(alive, 0)
	if err != nil {
		return err
	}
	return rest.Barrier()
}

// A rank that dies at any step after the first fence of the start does not keep the others from
// starting. They find that it has failed. Before that fence the start fails.
func TestDeathWhileStarting(t *testing.T) {
	for name, env := range map[string]string{"shm": "BANYAN_FABRIC=shm", "tcp": "BANYAN_FABRIC=tcp",
		"both": ranktest.Nodes("a;a;b")} {
		for victim := range ranktest.Scaled(2, 1) {
			if victim > 0 && name == "both" { // the number of steps with tcp
				continue
			}
			t.Run(fmt.Sprintf("%s/rank %d", name, victim), func(t *testing.T) {
				steps := 0
				for ; dieWhileStarting(t, victim, steps, env); steps++ {
				}
				require.GreaterOrEqual(t, steps, 4, "fewer steps than two fences have")
			})
		}
	}
}

// dieWhileStarting returns false when the start ends before that step.
func dieWhileStarting(t *testing.T, victim, step int, env string) bool {
	const n = 3
	exe, err := os.Executable()
	require.NoError(t, err)
	var out, errs bytes.Buffer
	res, err := launch.Run(t.Context(), launch.Spec{
		N: n, Argv: []string{exe}, Stdout: &out, Stderr: &errs, OnFailure: launch.Continue,
		Env: append(os.Environ(), env, ranktest.RoleEnv+"=dead start", fmt.Sprintf("%s=%d", stepEnv, step),
			fmt.Sprintf("%s=%d", victimEnv, victim)),
	})
	require.NoError(t, err)
	words := out.String()
	story := fmt.Sprintf("step %d: %s%s", step, words, errs.String())
	for _, end := range res.Ends {
		if end.Rank == victim {
			require.Equal(t, syscall.SIGKILL, end.Signal, story)
		} else {
			require.Zero(t, int(end.Signal)+end.Code, story)
		}
	}
	want := "started\n"
	if strings.Contains(words, "dies after fence 0\n") {
		want = fmt.Sprintf("missing %d\n", victim)
	}
	require.Equal(t, n-1, strings.Count(words, want), story)
	return !strings.Contains(words, "the start is over")
}
