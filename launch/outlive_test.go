package launch

import (
	"bufio"
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// lines gives the lines that a job prints as they come.
func lines() (io.WriteCloser, <-chan string) {
	r, w := io.Pipe()
	ch := make(chan string)
	go func() {
		defer close(ch)
		for s := bufio.NewScanner(r); s.Scan(); {
			ch <- s.Text()
		}
	}()
	return w, ch
}

// start runs a job beside the test.
func start(s Spec) (printed <-chan string, done <-chan *Result) {
	w, printed := lines()
	s.Stdout = w
	ch := make(chan *Result, 1)
	go func() {
		res, _ := Run(context.Background(), s)
		w.Close()
		ch <- res
	}()
	return printed, ch
}

func TestSignalsAreForwarded(t *testing.T) {
	sigs := make(chan os.Signal)
	s := ranks(t, "signalled", 2)
	s.Signals = sigs
	printed, done := start(s)
	require.Equal(t, "ready", <-printed)
	require.Equal(t, "ready", <-printed)
	sigs <- unix.SIGTERM
	require.Equal(t, "got terminated", <-printed)
	require.Equal(t, "got terminated", <-printed)
	require.Zero(t, (<-done).Code)
}

func TestSecondInterruptKills(t *testing.T) {
	sigs := make(chan os.Signal)
	s := ranks(t, "stubborn", 2)
	s.Signals = sigs
	printed, done := start(s)
	require.Equal(t, "ready", <-printed)
	require.Equal(t, "ready", <-printed)
	sigs <- unix.SIGINT
	require.Equal(t, "got interrupt", <-printed)
	require.Equal(t, "got interrupt", <-printed)
	sigs <- unix.SIGINT
	res := <-done
	require.Equal(t, 130, res.Code)
	for _, end := range res.Ends {
		require.Equal(t, unix.SIGKILL, end.Signal)
	}
}

func TestCancelKillsTheStubborn(t *testing.T) {
	t.Parallel() // it waits for killGrace
	ctx, cancel := context.WithCancel(context.Background())
	s := ranks(t, "stubborn", 1)
	s.Stdout = writerFunc(func([]byte) { cancel() })
	res, err := Run(ctx, s)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, unix.SIGKILL, res.Ends[0].Signal)
	require.True(t, res.Ends[0].Stopped)
}

// killLauncher starts a launcher with two ranks, kills it, and returns the
// ranks' connections to the test.
func killLauncher(t *testing.T, policy string) []net.Conn {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self)
	cmd.Env = cleanEnv(roleEnv+"=launcher", socketEnv+"="+path, policyEnv+"="+policy)
	var said buffer
	cmd.Stderr = &said
	require.NoError(t, cmd.Start())
	dead := make(chan struct{})
	go func() {
		defer close(dead)
		_ = cmd.Wait()
		l.Close() // whoever waits for a rank waits in vain
	}()
	var conns []net.Conn
	for range 2 {
		c, err := l.Accept()
		require.NoError(t, err, "%v", &said)
		t.Cleanup(func() { c.Close() })
		conns = append(conns, c)
		_, err = bufio.NewReader(c).ReadString('\n')
		require.NoError(t, err, "%v", &said)
	}
	require.NoError(t, cmd.Process.Kill())
	<-dead
	return conns
}

func TestLauncherKilledContinue(t *testing.T) {
	for _, c := range killLauncher(t, "continue") {
		_, err := c.Write([]byte("go on\n"))
		require.NoError(t, err)
		said, err := io.ReadAll(c)
		require.NoError(t, err)
		require.Equal(t, "print: true\nfence: true\nfinalize: <nil>\n", string(said))
	}
}

func TestLauncherKilledAbort(t *testing.T) {
	for _, c := range killLauncher(t, "abort") {
		said, err := io.ReadAll(c) // ends when the rank does
		require.NoError(t, err)
		require.Empty(t, said)
	}
}
