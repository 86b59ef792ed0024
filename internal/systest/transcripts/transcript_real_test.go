package transcripts

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/launch"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

const (
	// dirEnv is the directory of the ranks' FIFOs.
	dirEnv = "BANYAN_TEST_DIR"
	// unbornEnv names a rank that dies right after it has joined.
	unbornEnv = "BANYAN_TEST_UNBORN"
)

func TestTranscriptsReal(t *testing.T) {
	transcripts(t, func(t *testing.T, tr *transcript) {
		if tr.simulated {
			return
		}
		j := startTranscript(t, tr)
		for _, s := range tr.steps {
			j.take(t, s)
		}
		for rank, l := range j.lines {
			if !tr.over(rank) {
				fmt.Fprintln(l.to, "finalize")
			}
		}
		j.wait(t)
	})
}

// acted is a transcript played by real processes.
type acted struct {
	*transcript
	lines []*wire
	out   bytes.Buffer
	ends  chan *launch.Result
}

func startTranscript(t *testing.T, tr *transcript) *acted {
	exe, err := os.Executable()
	require.NoError(t, err)
	dir := t.TempDir()
	j := &acted{transcript: tr, ends: make(chan *launch.Result, 1)}
	env := append(os.Environ(), ranktest.RoleEnv+"=transcript", ranktest.AsyncEnv+"=1", dirEnv+"="+dir,
		unbornEnv+"="+strconv.Itoa(tr.unborn))
	if tr.eager > 0 {
		env = append(env, ranktest.EagerEnv+"="+strconv.Itoa(tr.eager))
	}
	if tr.streams {
		env = append(env, ranktest.NoCopyEnv+"=1")
	}
	for rank := range tr.ranks {
		j.lines = append(j.lines, newWire(t, dir, rank))
	}
	go func() {
		res, err := launch.Run(t.Context(), launch.Spec{
			N: tr.ranks, Argv: []string{exe}, OnFailure: launch.Continue, Stdout: io.Discard, Stderr: &j.out, Env: env,
		})
		if err != nil {
			res = &launch.Result{}
		}
		j.ends <- res
	}()
	for rank, l := range j.lines {
		if rank != tr.unborn {
			l.pid, err = strconv.Atoi(l.next(t))
			require.NoError(t, err)
		}
	}
	return j
}

// take carries out one step.
func (j *acted) take(t *testing.T, s step) {
	l := j.lines[s.rank]
	verb, blocks := strings.CutPrefix(s.verb, "begin ")
	switch {
	case s.signal != 0:
		require.NoError(t, syscall.Kill(l.pid, s.signal))
		if s.signal == syscall.SIGSTOP {
			require.NoError(t, ranktest.AwaitStop(l.pid))
		}
	case s.verb == "finalize":
		fmt.Fprintln(l.to, s.verb)
	case blocks:
		fmt.Fprintln(l.to, verb)
	case s.verb == "end":
		require.NoError(t, s.meets(l.next(t)))
	default:
		require.NoError(t, s.meets(s.insist(nil, func(verb string) string { return l.ask(t, verb) })))
	}
}

// wait checks the ends of the ranks: the living ones finalize after any events.
func (j *acted) wait(t *testing.T) {
	res := <-j.ends
	require.Len(t, res.Ends, j.ranks)
	deaths := 0
	for _, e := range res.Ends {
		require.Equal(t, j.dead(e.Rank), e.Failed(), "%v\n%s", e, j.out.String())
		if e.Failed() {
			deaths++
		}
	}
	require.Equal(t, deaths, strings.Count(j.out.String(), "\n"), j.out.String()) // one log line for each
}

// wire is the connection of the test with a rank.
type wire struct {
	pid      int
	to, from *os.File
	lines    *bufio.Reader
}

func newWire(t *testing.T, dir string, rank int) *wire {
	t.Helper()
	open := func(name string) *os.File {
		path := filepath.Join(dir, fmt.Sprintf("%s.%d", name, rank))
		require.NoError(t, syscall.Mkfifo(path, 0o600))
		f, err := os.OpenFile(path, os.O_RDWR, 0) // so that opening does not block
		require.NoError(t, err)
		t.Cleanup(func() { f.Close() })
		return f
	}
	w := &wire{to: open("to"), from: open("from")}
	w.lines = bufio.NewReader(w.from)
	return w
}

// next is the rank's next line; a rank that hangs is an error.
func (w *wire) next(t *testing.T) string {
	t.Helper()
	require.NoError(t, w.from.SetReadDeadline(time.Now().Add(time.Minute)))
	line, err := w.lines.ReadString('\n')
	require.NoError(t, err)
	return strings.TrimSuffix(line, "\n")
}

func (w *wire) ask(t *testing.T, verb string) string {
	t.Helper()
	fmt.Fprintln(w.to, verb)
	return w.next(t)
}

// follow is the role of a rank in a transcript.
func follow(w *banyan.World) error {
	if os.Getenv(unbornEnv) == strconv.Itoa(w.Comm().Rank()) {
		return syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	name := func(way string) string {
		return filepath.Join(os.Getenv(dirEnv), fmt.Sprintf("%s.%d", way, w.Comm().Rank()))
	}
	in, err := os.Open(name("to"))
	if err != nil {
		return err
	}
	out, err := os.OpenFile(name("from"), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, os.Getpid())
	s := newSession(w)
	for lines := bufio.NewScanner(in); lines.Scan() && lines.Text() != "finalize"; {
		fmt.Fprintln(out, s.do(lines.Text()))
	}
	return nil
}
