package launch

import (
	"bytes"
	"context"
	"os"
	"strconv"
	"testing"

	"github.com/banyan-hpc/banyan/internal/launch/spawn"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func fullDisk(t *testing.T) *os.File {
	f, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

// A rank prints more than fits the pipe, so it would notice.
const printsMuch = "seq 100000 || exit 9"

func TestFullDiskIsReported(t *testing.T) {
	var errs buffer
	s := script(2, printsMuch)
	s.Stdout, s.Stderr = fullDisk(t), &errs
	res, err := Run(context.Background(), s)
	require.NoError(t, err)
	require.Equal(t, 1, res.Code)
	require.ErrorIs(t, res.Output, unix.ENOSPC)
	require.ErrorContains(t, res.Output, "standard output")
	require.Equal(t, "banyan: cannot write to the standard output, further output is lost: write /dev/full: no space left on device\n", errs.String())
	for _, end := range res.Ends {
		require.False(t, end.Failed(), "rank %d %v", end.Rank, end)
	}

	var out buffer
	s = script(1, "exec >&2; "+printsMuch)
	s.Stdout, s.Stderr = &out, fullDisk(t)
	res, err = Run(context.Background(), s)
	require.NoError(t, err)
	require.Equal(t, 1, res.Code)
	require.ErrorContains(t, res.Output, "standard error")
}

func TestFullDiskEndsRanksUnderAbort(t *testing.T) {
	var errs buffer
	s := script(2, "exec yes")
	s.OnFailure, s.Stdout, s.Stderr = spawn.Abort, fullDisk(t), &errs
	res, err := Run(context.Background(), s)
	require.NoError(t, err)
	require.Equal(t, 1, res.Code)
	require.Contains(t, errs.String(), "banyan: ending the ranks\n")
	for _, end := range res.Ends {
		require.True(t, end.Stopped)
	}
}

func TestBrokenPipe(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer w.Close()
	r.Close()
	var errs buffer
	s := script(1, printsMuch)
	s.Stdout, s.Stderr = w, &errs
	res, err := Run(context.Background(), s)
	require.NoError(t, err)
	require.Equal(t, 128+int(unix.SIGPIPE), res.Code)
	require.ErrorIs(t, res.Output, unix.EPIPE)
	require.Empty(t, errs.String(), "a reader that ends a pipe early gets no report")
	require.False(t, res.Ends[0].Failed())
}

// stuck is a writer whose reader sleeps until the test is over.
type stuck struct{ entered, over chan struct{} }

func newStuck(t *testing.T) stuck {
	s := stuck{make(chan struct{}), make(chan struct{})}
	t.Cleanup(func() { close(s.over) })
	return s
}

func (s stuck) Write(p []byte) (int, error) {
	select {
	case s.entered <- struct{}{}:
	case <-s.over:
	}
	<-s.over
	return len(p), nil
}

// The ranks' output is not read; the launcher's messages and signals pass.
func TestStuckOutputStopsNothingElse(t *testing.T) {
	t.Parallel()
	out, sigs := newStuck(t), make(chan os.Signal)
	said := make(chan string, 8)
	s := script(2, "[ $PMI_RANK = 0 ] && exec yes; read x; exit 3")
	s.Stdout, s.Signals = out, sigs
	s.Stderr = writerFunc(func(p []byte) { said <- string(p) })
	done := make(chan *Result, 1)
	go func() {
		res, _ := Run(context.Background(), s)
		done <- res
	}()
	<-out.entered
	require.Regexp(t, "rank 1 exited with code 3 after ", <-said)
	sigs <- unix.SIGTERM
	sigs <- unix.SIGTERM
	res := <-done
	require.Equal(t, 3, res.Code)
	require.NotZero(t, res.Ends[0].Signal)
}

// Standard error is not read, and the remote shell of a lost host prints there: the ends of its ranks and signals pass.
func TestStuckErrorOfALostHost(t *testing.T) {
	t.Parallel() // it waits for the words of the remote shell
	errs, sigs, ended := newStuck(t), make(chan os.Signal), make(chan spawn.End, 2)
	s := spread(t, script(2, "[ $PMI_RANK = 0 ] && echo $PPID && echo stuck >&2; exec sleep 1000"))
	s.Shell = shellOf(t, `"$@"; echo closed >&2; exit 255`)
	s.OnFailure, s.Stderr, s.Signals = spawn.Abort, errs, sigs
	s.Events = func(e Event) {
		if e.Kind == Exited {
			ended <- e.End
		}
	}
	printed, done := start(s)
	proxy, err := strconv.Atoi(<-printed)
	require.NoError(t, err)
	<-errs.entered
	require.NoError(t, unix.Kill(proxy, unix.SIGKILL))
	end := <-ended
	require.True(t, end.Lost && end.Rank == 0, "%+v", end)
	sigs <- unix.SIGINT
	sigs <- unix.SIGINT
	require.Equal(t, 1, (<-done).Code)
}

// The launcher's own messages are not read.
func TestStuckErrorsStopNoSignal(t *testing.T) {
	t.Parallel()
	errs, sigs := newStuck(t), make(chan os.Signal)
	s := ranks(t, "stubborn", 1)
	s.N, s.Argv = 2, []string{"sh", "-c", `[ $PMI_RANK = 1 ] && exit 3; exec "$0"`, s.Argv[0]}
	s.Stderr, s.Signals = errs, sigs
	printed, done := start(s)
	require.Equal(t, "ready", <-printed)
	<-errs.entered // rank 1 exited with code 3
	sigs <- unix.SIGINT
	require.Equal(t, "got interrupt", <-printed)
	sigs <- unix.SIGINT
	res := <-done
	require.Equal(t, 3, res.Code)
	require.Equal(t, unix.SIGKILL, res.Ends[0].Signal)
}

// All ranks have ended and only the reader is missing: one signal is enough.
func TestStuckOutputIsGivenUp(t *testing.T) {
	t.Parallel()
	out, sigs := newStuck(t), make(chan os.Signal)
	s := script(1, "echo x")
	s.Stdout, s.Signals = out, sigs
	done := make(chan *Result, 1)
	go func() {
		res, _ := Run(context.Background(), s)
		done <- res
	}()
	<-out.entered
	var res *Result
	for n := 0; res == nil; n++ { // the first ones may find the rank still running
		select {
		case sigs <- unix.SIGINT:
		case res = <-done:
		}
	}
	require.NotZero(t, res.Code)
}

func TestStuckOutputIsGivenUpWithContext(t *testing.T) {
	t.Parallel()
	out := newStuck(t)
	ctx, cancel := context.WithCancel(context.Background())
	s := script(1, "exec yes")
	s.Stdout = out
	go func() {
		<-out.entered
		cancel()
	}()
	res, err := Run(ctx, s)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, unix.SIGTERM, res.Ends[0].Signal)
}

func TestOneFileHasOneSink(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	defer w.Close()
	fd, err := unix.Dup(int(w.Fd()))
	require.NoError(t, err)
	twin := os.NewFile(uintptr(fd), "2>&1")
	defer twin.Close()
	var a, b bytes.Buffer
	f := writerFunc(func([]byte) {})
	require.True(t, same(w, twin))
	require.True(t, same(&a, &a))
	require.False(t, same(&a, &b))
	require.False(t, same(w, os.Stderr))
	require.False(t, same(f, f), "functions cannot be compared")
	require.False(t, same(nil, nil))
	require.False(t, same(nil, &a))
}
