package startup

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/launch"
	"github.com/banyan-hpc/banyan/internal/launch/join"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// farewell is a job, drawn from a seed by all ranks and the test.
type farewell struct {
	n      int
	fabric string
	doomed map[int]time.Duration // from a rank's last message before Finalize to its death
	random *rand.Rand
}

func newFarewell(seed uint64) *farewell {
	r := rand.New(rand.NewPCG(seed, 7))
	f := &farewell{n: 2 + r.IntN(4), doomed: map[int]time.Duration{}, random: r}
	if r.IntN(4) == 0 {
		f.n = 6 + r.IntN(11)
	}
	f.fabric = []string{"shm", "tcp"}[r.IntN(2)]
	for _, rank := range r.Perm(f.n)[:1+r.IntN(f.n-1)] {
		f.doomed[rank] = time.Duration(r.IntN(400*f.n)) * time.Microsecond
	}
	return f
}

// leave sends messages without receivers, and finalizes. A doomed rank dies meanwhile.
func leave(w *banyan.World) error {
	seed, err := ranktest.JobSeed()
	if err != nil {
		return err
	}
	f, c := newFarewell(seed), w.Comm()
	sizes := []int{0, 8, 4000, 100_000}
	for range f.n {
		src, dst, size := f.random.IntN(f.n), f.random.IntN(f.n), sizes[f.random.IntN(len(sizes))]
		switch c.Rank() {
		case src:
			c.Isend(make([]byte, size), dst, 1)
		case dst:
			c.Irecv(make([]byte, size), src, 1)
		}
	}
	if delay, doomed := f.doomed[c.Rank()]; doomed {
		time.AfterFunc(delay, func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) }) // cannot fail
	}
	return w.Finalize()
}

// Whichever rank dies before, in and after Finalize, the others' Finalize succeeds.
func TestFinalizeAmongDeaths(t *testing.T) {
	first, runs, killed := uint64(time.Now().UnixNano()), ranktest.Scaled(40, 8), 0
	if seed, err := strconv.ParseUint(os.Getenv("BANYAN_SEED"), 10, 64); err == nil {
		first, runs = seed, 1
	}
	for seed := first; seed < first+uint64(runs) || killed == 0 && runs > 1 && seed < first+uint64(10*runs); seed++ {
		killed += part(t, seed)
	}
	t.Logf("%d runs, %d ranks killed", runs, killed)
	require.True(t, killed > 0 || runs == 1, "no rank was killed")
}

// part runs the job of a seed and returns the number of ranks killed in time.
func part(t *testing.T, seed uint64) (killed int) {
	f := newFarewell(seed)
	exe, err := os.Executable()
	require.NoError(t, err)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	signals := make(chan os.Signal, 1)
	stacks := time.AfterFunc(time.Minute, func() { signals <- syscall.SIGQUIT })
	end := time.AfterFunc(time.Minute+5*time.Second, func() { cancel(errors.New("ranks hang")) })
	defer stacks.Stop()
	defer end.Stop()
	var errs bytes.Buffer
	res, err := launch.Run(ctx, launch.Spec{
		N: f.n, Argv: []string{exe}, Stdout: io.Discard, Stderr: &errs, OnFailure: launch.Continue, Signals: signals,
		Env: append(os.Environ(), ranktest.RoleEnv+"=leave", fmt.Sprintf("%s=%d", ranktest.SeedEnv, seed),
			"BANYAN_FABRIC="+f.fabric),
	})
	story := fmt.Sprintf("BANYAN_SEED=%d runs it again: %d ranks, %s, doomed %v\n%s", seed, f.n, f.fabric, f.doomed,
		errs.String())
	require.NoError(t, err, "%s", story)
	for rank, end := range res.Ends {
		if _, doomed := f.doomed[rank]; doomed && end.Signal == syscall.SIGKILL {
			killed++
			continue
		}
		require.False(t, end.Failed(), "rank %d %v\n%s", rank, end, story)
	}
	return killed
}

const strangerRanks = 3

// strangers are ranks that lose their launcher. Rank 2 finalizes and exits; rank 0 has met rank 1
// alone and then sends to it.
func strangers(w *banyan.World) error {
	c, fifo := w.Comm(), os.Getenv(ranktest.FIFOEnv)
	line, err := os.OpenFile(fifo, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if c.Rank() < 2 {
		if _, err := c.Sendrecv(nil, 1-c.Rank(), 0, nil, 1-c.Rank(), 0); err != nil {
			return err
		}
	}
	fmt.Fprintln(line, c.Rank(), os.Getpid())
	if c.Rank() != 1 { // until the launcher is dead, and in rank 0 until rank 2 has ended
		if _, err := os.ReadFile(fmt.Sprint(fifo, c.Rank())); err != nil {
			return err
		}
	}
	switch c.Rank() {
	case 0:
		if err = unmetFailure(c.Send(nil, 2, 1)); err != nil {
			break
		}
		_, err = c.Recv(nil, banyan.AnySource, 2) // there is no doubt
	case 1:
		err = c.Send(nil, 0, 2)
	}
	err = errors.Join(err, w.Finalize())
	fmt.Fprintln(line, "told", c.Rank(), err)
	return line.Close()
}

// unmetFailure checks the error of a first contact without launcher.
func unmetFailure(err error) error {
	var failed *banyan.ProcFailedError
	if errors.As(err, &failed) && failed.Cause == (proc.Cause{Kind: proc.Unreachable, Code: proc.NoAddress}) &&
		errors.Is(err, join.ErrLauncherGone) {
		return nil
	}
	return fmt.Errorf("first contact with a rank without a known address: %w", err)
}

// Without the launcher nothing synchronizes ranks in Finalize. A rank that has left still does not
// count as failed: ranks that it has met know that it has departed, and others cannot reach it,
// because the launcher had its address. Their sends fail.
func TestFinalizeWithoutLauncher(t *testing.T) {
	for _, fabric := range []string{"shm", "tcp"} {
		t.Run(fabric, func(t *testing.T) {
			// The detector would connect at a time of its own
			told := leaveAlone(t, "BANYAN_FABRIC="+fabric, "BANYAN_DETECT=off")
			require.ElementsMatch(t, []string{"told 0 <nil>", "told 1 <nil>", "told 2 <nil>"}, told)
		})
	}
}

// leaveAlone runs strangers, kills their launcher, and returns their last lines.
func leaveAlone(t *testing.T, env ...string) (told []string) {
	a := lead(t, "strangers", env...)
	leaver, err := unix.PidfdOpen(a.pids[2], 0)
	require.NoError(t, err)
	a.kill(t)
	require.NoError(t, os.WriteFile(a.fifo+"2", nil, 0))
	for err = unix.EINTR; errors.Is(err, unix.EINTR); { // until it has ended
		_, err = unix.Poll([]unix.PollFd{{Fd: int32(leaver), Events: unix.POLLIN}}, -1)
	}
	require.NoError(t, errors.Join(err, unix.Close(leaver)))
	require.NoError(t, os.WriteFile(a.fifo+"0", nil, 0))
	return a.rest(t)
}

// leaderless are ranks whose launcher is going to be killed.
type leaderless struct {
	fifo string
	cmd  *exec.Cmd // the launcher
	line *os.File
	in   *bufio.Scanner
	pids [strangerRanks]int
}

// lead starts such ranks, and returns when each has printed its pid.
func lead(t *testing.T, role string, env ...string) *leaderless {
	a := &leaderless{fifo: filepath.Join(t.TempDir(), "fifo")}
	for _, name := range []string{"", "0", "2"} {
		require.NoError(t, syscall.Mkfifo(a.fifo+name, 0o600))
	}
	exe, err := os.Executable()
	require.NoError(t, err)
	a.cmd = exec.Command(exe)
	a.cmd.Env = append(append(os.Environ(), ranktest.RoleEnv+"=launches "+role, ranktest.FIFOEnv+"="+a.fifo), env...)
	a.cmd.Stderr = os.Stderr // the ranks keep it after the launcher's death
	require.NoError(t, a.cmd.Start())
	a.line, err = os.Open(a.fifo)
	require.NoError(t, err)
	a.in = bufio.NewScanner(a.line)
	for range a.pids {
		require.True(t, a.in.Scan())
		var rank, pid int
		_, err := fmt.Sscan(a.in.Text(), &rank, &pid)
		require.NoError(t, err)
		a.pids[rank] = pid
	}
	return a
}

func (a *leaderless) kill(t *testing.T) {
	require.NoError(t, a.cmd.Process.Kill())
	_ = a.cmd.Wait()
}

// rest is the last lines of the ranks.
func (a *leaderless) rest(t *testing.T) (told []string) {
	for a.in.Scan() {
		told = append(told, a.in.Text())
	}
	require.NoError(t, a.line.Close())
	return told
}

// unmetPair are ranks of which 0 and 2 have never met when the launcher is killed.
func unmetPair(w *banyan.World) error {
	line, err := os.OpenFile(os.Getenv(ranktest.FIFOEnv), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	size, err := recoverUnmet(w.Comm(), line)
	fmt.Fprintln(line, "told", w.Comm().Rank(), size, errors.Join(err, w.Finalize()))
	return line.Close()
}

// unmetEnv is the fabric of an unmet pair.
const unmetEnv = "BANYAN_FABRIC"

// recoverUnmet returns the number of remaining ranks. Those of a node find each other without the launcher.
func recoverUnmet(c *banyan.Comm, line io.Writer) (int, error) {
	for _, peer := range [][]int{{1}, {0, 2}, {1}}[c.Rank()] {
		if _, err := c.Sendrecv(nil, peer, 0, nil, peer, 0); err != nil {
			return 0, err
		}
	}
	fmt.Fprintln(line, c.Rank(), os.Getpid())
	if c.Rank() == 0 {
		if _, err := os.ReadFile(os.Getenv(ranktest.FIFOEnv) + "0"); err != nil { // until the launcher is dead
			return 0, err
		}
		first, second := c.Send(nil, 2, 2), c.Send(nil, 2, 2)
		if os.Getenv(unmetEnv) == "tcp" {
			first, second = unmetFailure(first), unmetFailure(second)
		}
		if err := errors.Join(first, second, c.Revoke()); err != nil {
			return 0, err
		}
	} else if _, err := c.Recv(nil, banyan.AnySource, 1); !errors.Is(err, banyan.ErrRevoked) {
		return 0, fmt.Errorf("receive until rank 0 revokes: %w", err)
	}
	left, err := c.Shrink()
	if err != nil {
		return 0, err
	}
	return left.Size(), left.Barrier()
}

// The usual recovery works when a first contact fails without the launcher: the higher of the two
// ranks that cannot reach each other is excluded, and the others go on. In shared memory the first contact
// does not need the launcher, and all go on.
func TestRecoveryWithoutLauncher(t *testing.T) {
	for fabric, left := range map[string]int{"shm": 3, "tcp": 2} {
		t.Run(fabric, func(t *testing.T) {
			// The detector would connect at a time of its own
			a := lead(t, "unmet pair", unmetEnv+"="+fabric, "BANYAN_DETECT=off")
			a.kill(t)
			require.NoError(t, os.WriteFile(a.fifo+"0", nil, 0))
			told := a.rest(t)
			for rank := range left {
				require.Contains(t, told, fmt.Sprintf("told %d %d <nil>", rank, left))
			}
			if left == 2 && len(told) > 2 { // it found that the others have departed
				require.Contains(t, told, "told 2 1 <nil>")
			}
		})
	}
}

// Goroutines that wait during Finalize, or call the library afterwards, get an error.
func TestFinalizeUnderOthers(t *testing.T) {
	for round := range 100 {
		w, err := banyan.Init(banyan.WithAware(round%2 == 0), banyan.WithAsyncProgress(round%4 < 2))
		require.NoError(t, err)
		c := w.Comm()
		require.NoError(t, c.Send(nil, 0, 1))
		_, err = c.Recv(nil, 0, 1)
		require.NoError(t, err)
		posted := c.Irecv(nil, banyan.AnySource, 2)
		ended := make(chan error)
		go func() {
			_, err := c.Recv(make([]byte, 8), banyan.AnySource, 3)
			ended <- err
		}()
		go func() {
			_, err := posted.Wait()
			ended <- err
		}()
		require.NoError(t, w.Finalize())
		require.ErrorIs(t, <-ended, banyan.ErrClosed)
		require.ErrorIs(t, <-ended, banyan.ErrClosed)
		require.ErrorIs(t, c.Send(nil, 0, 1), banyan.ErrClosed)
		require.ErrorIs(t, c.Barrier(), banyan.ErrClosed)
		_, err = c.Recv(nil, 0, 1)
		require.ErrorIs(t, err, banyan.ErrClosed)
		_, _, err = c.Iprobe(0, 1)
		require.ErrorIs(t, err, banyan.ErrClosed)
	}
}
