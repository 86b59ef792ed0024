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
	"time"

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

// A channel that is closed is no signal after the other: the launcher sleeps.
func TestClosedSignals(t *testing.T) {
	sigs := make(chan os.Signal)
	close(sigs)
	s := script(1, "sleep 1")
	s.Signals = sigs
	before := cpuTime(t)
	run(t, s)
	require.Less(t, cpuTime(t)-before, 500*time.Millisecond)
}

// cpuTime is the processor time of this process.
func cpuTime(t *testing.T) time.Duration {
	var u unix.Rusage
	require.NoError(t, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return time.Duration(unix.TimevalToNsec(u.Utime) + unix.TimevalToNsec(u.Stime))
}

// A rank that a forwarded signal killed is no news, another signal after it or not.
func TestForwardedSignalsAreNoNews(t *testing.T) {
	sigs := make(chan os.Signal, 2)
	var errs buffer
	s := script(1, "trap '' CONT; echo ready; exec sleep 1000")
	s.Signals, s.Stderr = sigs, &errs
	printed, done := start(s)
	require.Equal(t, "ready", <-printed)
	sigs <- unix.SIGTERM
	sigs <- unix.SIGCONT
	require.Equal(t, 128+int(unix.SIGTERM), (<-done).Code)
	require.Empty(t, errs.String())
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
func killLauncher(t *testing.T, policy string, env ...string) []net.Conn {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(cleanEnv(roleEnv+"=launcher", socketEnv+"="+path, policyEnv+"="+policy), env...)
	var said buffer
	cmd.Stderr = &said
	require.NoError(t, cmd.Start())
	dead := make(chan struct{})
	go func() {
		defer close(dead)
		_ = cmd.Wait()
		l.Close() // a process that waits for a rank waits in vain
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
