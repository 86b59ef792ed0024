package launch

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/banyan-hpc/banyan/internal/affinity"
	"github.com/banyan-hpc/banyan/internal/launch/join"
	"github.com/banyan-hpc/banyan/internal/launch/pmi"
	"github.com/banyan-hpc/banyan/internal/launch/spawn"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// buffer is a bytes.Buffer that one goroutine writes and another reads.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// cleanEnv is the environment without the variables by which this test was started.
func cleanEnv(extra ...string) []string {
	var env []string
	for _, e := range spawn.WithoutLauncher(os.Environ()) {
		if name, _, _ := strings.Cut(e, "="); !slices.Contains(rendezvousNames, name) && name != "GOMAXPROCS" {
			env = append(env, e)
		}
	}
	return append(env, extra...)
}

// ranks describes n processes in a role of this test binary.
func ranks(t *testing.T, role string, n int) Spec {
	self, err := os.Executable()
	require.NoError(t, err)
	return Spec{N: n, Argv: []string{self}, Env: cleanEnv(roleEnv + "=" + role)}
}

func script(n int, text string) Spec {
	return Spec{N: n, Argv: []string{"sh", "-c", text}, Env: cleanEnv()}
}

// run runs a job and returns its output.
func run(t *testing.T, s Spec) (res *Result, stdout, stderr string) {
	t.Helper()
	var out, err buffer
	s.Stdout, s.Stderr = &out, &err
	res, rerr := Run(context.Background(), s)
	require.NoError(t, rerr)
	require.Len(t, res.Ends, s.N)
	return res, out.String(), err.String()
}

// Requests are answered while a rank is in a fence: by the launcher, through proxies, and by rank 0
// in its place.
func TestRequestsInsideAFence(t *testing.T) {
	for name, spec := range map[string]func(*testing.T, Spec) Spec{"here": func(_ *testing.T, s Spec) Spec { return s }, "hosts": spread} {
		t.Run(name, func(t *testing.T) {
			res, out, err := run(t, spec(t, ranks(t, "inside", 4)))
			require.Zero(t, res.Code, "%s%s", out, err)
		})
	}
	t.Run("no launcher", func(t *testing.T) {
		port := somePort(t)
		var ranks []*single
		for r := range 4 {
			ranks = append(ranks, setOut(t, "inside", port, r, 4))
		}
		for _, r := range ranks {
			require.Empty(t, r.end(0))
		}
	})
}

func TestExchange(t *testing.T) {
	for _, n := range []int{1, 2, 8} {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			res, out, err := run(t, ranks(t, "exchange", n))
			require.Empty(t, err)
			require.Zero(t, res.Code)
			var all []int
			for r := range n {
				all = append(all, r)
			}
			for r, end := range res.Ends {
				require.Contains(t, out, fmt.Sprintf("rank %d of %d in %s, local %v\n", r, n, res.Job, all))
				require.False(t, end.Failed())
				require.True(t, end.Joined && end.Finalized)
				require.Equal(t, r, end.Rank)
			}
		})
	}
}

func TestAloneIsAWorldOfOne(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self)
	cmd.Env = cleanEnv(roleEnv + "=alone")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Regexp(t, `^rank 0 of 1 in banyan-[0-9a-f]{10}, local \[0\]\n$`, string(out))
}

func TestJoinTwiceIsAnError(t *testing.T) {
	_, out, _ := run(t, ranks(t, "twice", 1))
	require.Contains(t, out, "again: launch: a process joins its launcher once")
}

func TestRankThatEndsBeforeItJoins(t *testing.T) {
	res, out, err := run(t, ranks(t, "early", 4))
	require.Equal(t, 3, strings.Count(out, "start-up: launch: rank 2 exited with code 127 before it joined\n"), out)
	require.Contains(t, err, "banyan: rank 2 exited with code 127 after ")
	require.Equal(t, 127, res.Code)
	require.False(t, res.Ends[victim].Joined)
}

func TestRankThatNeverJoins(t *testing.T) {
	s := ranks(t, "late", 3)
	s.InitTimeout = 50 * time.Millisecond
	res, out, err := run(t, s)
	require.Equal(t, "start-up: launch: rank 1 has not joined within 50ms; rank 2 has not joined within 50ms\n", out)
	require.Contains(t, err, "the start-up has failed, ending the ranks that never joined")
	require.True(t, res.Ends[victim].Stopped)
	require.Equal(t, unix.SIGTERM, res.Ends[victim].Signal)
	require.Equal(t, 1, res.Code)
}

func TestStartUpFailureSparesTheSlow(t *testing.T) {
	// One rank has failed, the first to notice have ended; the last one joins only then. It must
	// get the reason, not be taken for one that never joins.
	gate := filepath.Join(t.TempDir(), "gate")
	require.NoError(t, unix.Mkfifo(gate, 0o600))
	s := ranks(t, "slow", 4)
	s.Env = append(s.Env, gateEnv+"="+gate)
	res, out, _ := run(t, s)
	require.Equal(t, 3, strings.Count(out, "start-up: launch: rank 2 exited with code 127 before it joined\n"), out)
	require.Equal(t, 127, res.Code)
}

func TestRankKilledMidRun(t *testing.T) {
	res, out, err := run(t, ranks(t, "die", 4))
	require.Equal(t, 6, strings.Count(out, "fence: launch: rank 2 was killed by SIGKILL\n"), out)
	require.Regexp(t, `^banyan: rank 2 was killed by SIGKILL after [0-9.]+m?s\n$`, err)
	require.Equal(t, 137, res.Code)
	for r, end := range res.Ends {
		require.Equal(t, r == victim, end.Failed())
	}
}

func TestExitWithoutFinalizeIsAFailure(t *testing.T) {
	res, out, err := run(t, ranks(t, "no-goodbye", 3))
	require.Equal(t, 4, strings.Count(out, "fence: launch: rank 2 exited with code 0\n"), "%s%s", out, err)
	require.Contains(t, err, "rank 2 exited with code 0 without finalizing after ")
	require.Equal(t, 1, res.Code)
}

func TestGarbageHarmsNobodyElse(t *testing.T) {
	res, out, err := run(t, ranks(t, "garbage", 4))
	require.Equal(t, 6, strings.Count(out, "fence: launch: rank 2 was cut off for a wrong message to the launcher\n"), out)
	require.Contains(t, out, "after garbage: true\n")
	require.Contains(t, err, `rank 2 was cut off from the launcher: not PMI-1: "GET" is not key=value`)
	require.Equal(t, 1, res.Code, "it has not finalized")
}

func TestRankThatClosesItsConnection(t *testing.T) {
	t.Parallel()
	s := ranks(t, "abandon", 3)
	var out buffer
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	// The victim lives until the others have passed their fences.
	s.Stdout = writerFunc(func(p []byte) {
		_, _ = out.Write(p)
		if strings.Count(out.String(), "closed its connection") == 4 {
			cancel()
		}
	})
	res, err := Run(ctx, s)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 4, strings.Count(out.String(), "fence: launch: rank 2 closed its connection to the launcher\n"))
	require.True(t, res.Ends[victim].Stopped)
}

type writerFunc func(p []byte)

func (f writerFunc) Write(p []byte) (int, error) { f(p); return len(p), nil }

func TestAbortPolicyEndsTheOthers(t *testing.T) {
	s := ranks(t, "silent", 4)
	s.OnFailure = spawn.Abort
	res, _, err := run(t, s)
	require.Contains(t, err, "banyan: ending the other ranks\n")
	require.Equal(t, 7, res.Code)
	for r, end := range res.Ends {
		if r != victim {
			require.True(t, end.Stopped)
			require.Equal(t, unix.SIGTERM, end.Signal)
		}
	}
}

// roleVerdict: the victim finalizes and exits with code 3.
func roleVerdict() error {
	err := fences(func(*join.Job) {})
	if err == nil && os.Getenv("PMI_RANK") == fmt.Sprint(victim) {
		os.Exit(3)
	}
	return err
}

func TestVerdictIsNoFailure(t *testing.T) {
	s := ranks(t, "verdict", 4)
	s.OnFailure, s.Verdicts = spawn.Abort, []int{3}
	res, _, err := run(t, s)
	require.Empty(t, err)
	require.Equal(t, 3, res.Code)
	for _, end := range res.Ends {
		require.False(t, end.Stopped)
	}

	s = script(1, "exit 3") // it has not finalized
	s.Verdicts = []int{3}
	_, _, err = run(t, s)
	require.Contains(t, err, "rank 0 exited with code 3 after ")
}

func TestRankEndsTheJob(t *testing.T) {
	for code, status := range map[int]int{42: 42, 256: 1, -1: 255} { // of a status Linux has 8 bits
		s := ranks(t, "abort", 4)
		s.Env = append(s.Env, fmt.Sprintf("%s=%d", codeEnv, code))
		res, _, err := run(t, s)
		require.Contains(t, err, fmt.Sprintf("banyan: rank 2 ends the job with code %d: cannot_go_on\n", status))
		require.Equal(t, status, res.Code)
	}
}

func TestPlainPrograms(t *testing.T) {
	s := script(3, "echo $PMI_RANK of $PMI_SIZE $BANYAN_JOB $BANYAN_LOCAL_RANK/$BANYAN_LOCAL_SIZE; exec 3>&-")
	s.InitTimeout = time.Nanosecond
	res, out, err := run(t, s)
	require.Empty(t, err)
	require.Zero(t, res.Code)
	for r := range 3 {
		require.Contains(t, out, fmt.Sprintf("%d of 3 %s %d/3\n", r, res.Job, r))
	}

	res, _, err = run(t, script(3, "exit $((PMI_RANK * 3 % 5))")) // 0, 3, 1
	require.Contains(t, []int{3, 1}, res.Code)
	require.Contains(t, err, "rank 1 exited with code 3 after ")
	require.Contains(t, err, "rank 2 exited with code 1 after ")
}

func TestErrorsBeforeAnythingStarts(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	require.NoError(t, os.WriteFile(plain, []byte("text"), 0o644))
	broken := filepath.Join(dir, "broken")
	require.NoError(t, os.WriteFile(broken, []byte{0x7f, 'E', 'L', 'F', 0, 0}, 0o755))
	for _, c := range []struct {
		spec Spec
		want string
	}{
		{Spec{N: 0, Argv: []string{"true"}}, "0 ranks"},
		{Spec{N: 1 << 30, Argv: []string{"true"}}, "ranks: 1 to"},
		{Spec{N: 1}, "no program"},
		{Spec{N: 1, Argv: []string{"true"}, InitTimeout: -time.Second}, "a start-up of -1s"},
		{Spec{N: 2, Argv: []string{"no-such-program"}}, "cannot start no-such-program"},
		{Spec{N: 2, Argv: []string{"plain"}, Dir: dir}, "the one in the working directory is ./plain"},
		{Spec{N: 2, Argv: []string{dir + "/nothing"}}, "nothing: no such file"},
		{Spec{N: 2, Argv: []string{plain}}, "permission denied"},
		{Spec{N: 2, Argv: []string{broken}}, "exec format error"},
		{Spec{N: 2, Argv: []string{"true"}, Dir: dir + "/nothing"}, "working directory"},
		{Spec{N: 2, Argv: []string{"true"}, Dir: plain}, "is not a directory"},
	} {
		res, err := Run(context.Background(), c.spec)
		require.ErrorContains(t, err, c.want)
		require.Nil(t, res)
	}
	t.Setenv(pmi.InitTimeoutEnv, "soon")
	_, err := Run(context.Background(), Spec{N: 1, Argv: []string{"true"}})
	require.ErrorContains(t, err, pmi.InitTimeoutEnv)
}

func TestLastOfEqualVariablesCounts(t *testing.T) {
	s := script(1, "echo $A $PMI_SIZE; grep -zc PMI_SIZE= /proc/self/environ")
	s.Env = append(s.Env, "A=1", "A=2", "PMI_SIZE=77", "PMI_SIZE=78")
	_, out, _ := run(t, s)
	require.Equal(t, "2 1\n1\n", out)
}

// roleStarved is a launcher without descriptors for all of its ranks.
func roleStarved() error {
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 40, Max: 40}); err != nil {
		return err
	}
	res, err := Run(context.Background(), Spec{N: 50, Argv: []string{"sleep", "1000"}})
	fmt.Printf("%v %v\n", res, err)
	return nil
}

func TestStartThatFailsHalfWayLeavesNothing(t *testing.T) {
	res, out, err := run(t, ranks(t, "starved", 1)) // a launcher under the launcher
	require.Zero(t, res.Code, err)
	require.Regexp(t, `^<nil> launch: start rank [1-9][0-9]?: .*too many open files.*ulimit -n`, out)
}

func TestRelativeProgramAndDir(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "prog"), []byte("#!/bin/sh\npwd\n"), 0o755))
	_, out, _ := run(t, Spec{N: 1, Argv: []string{"./prog"}, Dir: dir})
	require.Equal(t, dir+"\n", out)
}

func TestStdinGoesToRankZero(t *testing.T) {
	s := script(3, `echo "$PMI_RANK:$(cat)"`)
	s.Stdin = strings.NewReader("hello")
	_, out, _ := run(t, s)
	require.Contains(t, out, "0:hello\n")
	require.Contains(t, out, "1:\n")
	require.Contains(t, out, "2:\n")

	file, err := os.CreateTemp(t.TempDir(), "in")
	require.NoError(t, err)
	defer file.Close()
	_, err = file.WriteString("from a file")
	require.NoError(t, err)
	_, err = file.Seek(0, io.SeekStart)
	require.NoError(t, err)
	s.Stdin = file
	_, out, _ = run(t, s)
	require.Contains(t, out, "0:from a file\n")
	_, err = file.Stat()
	require.NoError(t, err, "the caller's file stays open")
}

func TestBinding(t *testing.T) {
	before, err := affinity.Allowed()
	require.NoError(t, err)
	cpus := affinity.Spread(before)
	s := ranks(t, "bound", len(cpus)+1)
	s.Bind = spawn.BindCore
	_, out, _ := run(t, s)
	for r := range s.N {
		require.Contains(t, out, fmt.Sprintf("rank %d on [%d], many threads true, procs 1\n", r, cpus[r%len(cpus)]))
	}
	s.Env = append(s.Env, "GOMAXPROCS=3")
	_, out, _ = run(t, s)
	require.Equal(t, s.N, strings.Count(out, "procs 3\n"), "the user's GOMAXPROCS stays")
	after, err := affinity.Allowed()
	require.NoError(t, err)
	require.Equal(t, before, after)
}

func openFiles(t *testing.T) int {
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(entries)
}

func TestNoDescriptorLeaks(t *testing.T) {
	run(t, ranks(t, "exchange", 2)) // opens everything that is opened once
	before := openFiles(t)
	for range 3 {
		run(t, ranks(t, "exchange", 4))
		run(t, ranks(t, "die", 4))
		s := script(2, "cat")
		s.Stdin = strings.NewReader("x")
		run(t, s)
		_, err := Run(context.Background(), Spec{N: 2, Argv: []string{"/no/such"}})
		require.Error(t, err)
	}
	require.Equal(t, before, openFiles(t))
}
