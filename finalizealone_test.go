package banyan_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/launch"
)

const strangerRanks = 3

// strangers are ranks that lose their launcher. Rank 2 finalizes and exits; rank 0 has met rank 1
// alone and wants to send to it then.
func strangers(w *banyan.World) error {
	c, fifo := w.Comm(), os.Getenv(fifoEnv)
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
		err = c.Send(nil, 2, 1)
		if errors.Is(err, banyan.ErrProcFailed) || !errors.Is(err, launch.ErrLauncherGone) && !errors.Is(err, banyan.ErrDeparted) {
			err = fmt.Errorf("a send to a rank that has finalized: %w", err)
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

// Where the launcher is gone nothing holds ranks together in Finalize. A rank that has left is not
// taken for dead all the same: those it has met know that it has departed, and the others cannot
// look for it, as the launcher had its address.
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
	fifo := filepath.Join(t.TempDir(), "fifo")
	for _, name := range []string{"", "0", "2"} {
		require.NoError(t, syscall.Mkfifo(fifo+name, 0o600))
	}
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(exe)
	cmd.Env = append(append(os.Environ(), roleEnv+"=launches strangers", fifoEnv+"="+fifo), env...)
	cmd.Stderr = os.Stderr // which the ranks keep when the launcher is gone
	require.NoError(t, cmd.Start())
	line, err := os.Open(fifo)
	require.NoError(t, err)
	in := bufio.NewScanner(line)
	var pids [strangerRanks]int
	for range pids {
		require.True(t, in.Scan())
		var rank, pid int
		_, err := fmt.Sscan(in.Text(), &rank, &pid)
		require.NoError(t, err)
		pids[rank] = pid
	}
	leaver, err := unix.PidfdOpen(pids[2], 0)
	require.NoError(t, err)
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	require.NoError(t, os.WriteFile(fifo+"2", nil, 0))
	for err = unix.EINTR; errors.Is(err, unix.EINTR); { // until it has ended
		_, err = unix.Poll([]unix.PollFd{{Fd: int32(leaver), Events: unix.POLLIN}}, -1)
	}
	require.NoError(t, errors.Join(err, unix.Close(leaver)))
	require.NoError(t, os.WriteFile(fifo+"0", nil, 0))
	for in.Scan() {
		told = append(told, in.Text())
	}
	require.NoError(t, line.Close())
	return told
}
