package startup

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/launch"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

const strangerRanks = 3

// strangers are ranks that lose their launcher. Rank 2 finalizes and exits; rank 0 has met rank 1
// alone and wants to send to it then.
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
	if c.Rank() != 1 { // until the launcher is gone, and of rank 0 until rank 2 is
		if _, err := os.ReadFile(fmt.Sprint(fifo, c.Rank())); err != nil {
			return err
		}
	}
	switch c.Rank() {
	case 0:
		if err = unmetFailure(c.Send(nil, 2, 1)); err != nil {
			break
		}
		_, err = c.Recv(nil, banyan.AnySource, 2) // nobody is in doubt
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
	if errors.As(err, &failed) && failed.Cause == (proc.Cause{Kind: proc.Unreachable, Code: proc.NoAddress}) && errors.Is(err, launch.ErrLauncherGone) {
		return nil
	}
	return fmt.Errorf("first contact with a rank whose address nobody can tell: %w", err)
}

// Where the launcher is gone nothing holds ranks together in Finalize. A rank that has left is not
// taken for dead all the same: those it has met know that it has departed, and the others cannot
// look for it, as the launcher had its address: what they send to it fails, but nobody is in doubt.
func TestFinalizeWithoutLauncher(t *testing.T) {
	for _, fabric := range []string{"shm", "tcp"} {
		t.Run(fabric, func(t *testing.T) {
			told := leaveAlone(t, "BANYAN_FABRIC="+fabric, "BANYAN_DETECT=off") // it connects in its own time
			require.ElementsMatch(t, []string{"told 0 <nil>", "told 1 <nil>", "told 2 <nil>"}, told)
		})
	}
}

// leaveAlone runs strangers whose launcher is killed, and gives what they say in the end.
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

// lead starts such ranks, and returns when each has said its pid.
func lead(t *testing.T, role string, env ...string) *leaderless {
	a := &leaderless{fifo: filepath.Join(t.TempDir(), "fifo")}
	for _, name := range []string{"", "0", "2"} {
		require.NoError(t, syscall.Mkfifo(a.fifo+name, 0o600))
	}
	exe, err := os.Executable()
	require.NoError(t, err)
	a.cmd = exec.Command(exe)
	a.cmd.Env = append(append(os.Environ(), ranktest.RoleEnv+"=launches "+role, ranktest.FIFOEnv+"="+a.fifo), env...)
	a.cmd.Stderr = os.Stderr // which the ranks keep when the launcher is gone
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

// rest is what the ranks say in the end.
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

// recoverUnmet says how many ranks are left.
func recoverUnmet(c *banyan.Comm, line io.Writer) (int, error) {
	for _, peer := range [][]int{{1}, {0, 2}, {1}}[c.Rank()] {
		if _, err := c.Sendrecv(nil, peer, 0, nil, peer, 0); err != nil {
			return 0, err
		}
	}
	fmt.Fprintln(line, c.Rank(), os.Getpid())
	if c.Rank() == 0 {
		if _, err := os.ReadFile(os.Getenv(ranktest.FIFOEnv) + "0"); err != nil { // until the launcher is gone
			return 0, err
		}
		if err := errors.Join(unmetFailure(c.Send(nil, 2, 1)), unmetFailure(c.Send(nil, 2, 1)), c.Revoke()); err != nil {
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

// The usual recovery ends where a first contact fails for want of a launcher: the higher one of the two that cannot
// reach each other is left out, and the others go on.
func TestRecoveryWithoutLauncher(t *testing.T) {
	for _, fabric := range []string{"shm", "tcp"} {
		t.Run(fabric, func(t *testing.T) {
			a := lead(t, "unmet pair", "BANYAN_FABRIC="+fabric, "BANYAN_DETECT=off") // it connects in its own time
			a.kill(t)
			require.NoError(t, os.WriteFile(a.fifo+"0", nil, 0))
			told := a.rest(t)
			require.Subset(t, told, []string{"told 0 2 <nil>", "told 1 2 <nil>"})
			if len(told) > 2 { // it has not ended, but found that the others have departed
				require.Contains(t, told, "told 2 1 <nil>")
			}
		})
	}
}
