package banyan_test

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
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/launch"
	"github.com/banyan-hpc/banyan/proc"
)

// A transcript is a file under testdata/transcripts that says what the ranks do,
// one after another, and what they must see:
//
//	ranks 2
//	rank 0: isend to 1 tag 5 data abc as s
//	rank 1: recv from any tag any -> from 0 tag 5 data abc
//	rank 0: wait s -> sent
//
// A step begins when the one before has ended. The verbs are the methods of
// session; "kill 1" kills a rank. Each transcript is run in the simulator and on
// real processes.
type transcript struct {
	ranks int
	steps []step
}

type step struct {
	line       int
	rank       int
	kill       bool
	verb, want string
}

func readTranscript(t *testing.T, path string) *transcript {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	tr := &transcript{}
	for i, line := range strings.Split(string(text), "\n") {
		line, _, _ = strings.Cut(line, "#")
		line = strings.Join(strings.Fields(line), " ")
		s := step{line: i + 1}
		bad := func() { t.Fatalf("%s:%d: not a step: %q", path, s.line, line) }
		n := strings.NewReplacer("ranks ", "", "kill ", "").Replace(line)
		var err error
		switch {
		case line == "":
			continue
		case strings.HasPrefix(line, "ranks "):
			if tr.ranks, err = strconv.Atoi(n); err != nil {
				bad()
			}
			continue
		case strings.HasPrefix(line, "kill "):
			if s.rank, err = strconv.Atoi(n); err != nil {
				bad()
			}
			s.kill = true
		default:
			who, what, ok := strings.Cut(line, ": ")
			if _, err := fmt.Sscanf(who, "rank %d", &s.rank); err != nil || !ok {
				bad()
			}
			s.verb, s.want, ok = strings.Cut(what, " -> ")
			if !ok {
				s.want = "ok"
			}
		}
		if s.rank < 0 || s.rank >= tr.ranks {
			bad()
		}
		tr.steps = append(tr.steps, s)
	}
	return tr
}

func transcripts(t *testing.T, run func(t *testing.T, tr *transcript)) {
	files, err := filepath.Glob("testdata/transcripts/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) { run(t, readTranscript(t, path)) })
	}
}

func (tr *transcript) kills() (n int) {
	for _, s := range tr.steps {
		if s.kill {
			n++
		}
	}
	return n
}

// early reports whether an answer may turn into the one that it must be, when
// what is under way has arrived.
func (s *step) early(got string) bool {
	return got != s.want && (got == "none" || got == "pending")
}

// patience is how often a step is tried that is early.
const patience = 100_000

// meets tells a step's answer from what it must be.
func (s *step) meets(got string) error {
	if got != s.want {
		return fmt.Errorf("line %d: rank %d: %s\n\twant %s\n\tgot  %s", s.line, s.rank, s.verb, s.want, got)
	}
	return nil
}

func TestTranscriptsSimulated(t *testing.T) {
	transcripts(t, func(t *testing.T, tr *transcript) {
		var machine *sim.Sim
		turn := 0 // of the steps; the simulator runs one rank at a time
		err := banyan.Simulate(tr.ranks, banyan.Simulation{
			Faults:  func(s *sim.Sim) error { machine = s; return nil },
			Options: []banyan.Option{banyan.WithAsyncProgress(true)},
		}, func(w *banyan.World) error {
			s := newSession(w)
			me := w.Comm().Rank()
			for turn < len(tr.steps) {
				switch at := &tr.steps[turn]; {
				case at.kill && at.rank != me:
					turn++
					if err := machine.Kill(proc.ID(at.rank), machine.Now()); err != nil {
						return err
					}
				case !at.kill && at.rank == me:
					got := s.do(at.verb)
					for i := 0; i < patience && at.early(got); i++ {
						got = s.do(at.verb)
					}
					if err := at.meets(got); err != nil {
						turn = len(tr.steps)
						return err
					}
					turn++
				}
				w.Sleep(time.Millisecond) // what was sent arrives
			}
			return nil
		})
		require.NoError(t, err)
	})
}

// dirEnv is where the FIFOs of the ranks are.
const dirEnv = "BANYAN_TEST_DIR"

func TestTranscriptsReal(t *testing.T) {
	exe, err := os.Executable()
	require.NoError(t, err)
	transcripts(t, func(t *testing.T, tr *transcript) {
		dir := t.TempDir()
		lines := make([]*wire, tr.ranks)
		for rank := range lines {
			lines[rank] = newWire(t, dir, rank)
		}
		var out bytes.Buffer
		ended := make(chan error, 1)
		go func() {
			_, err := launch.Run(t.Context(), launch.Spec{
				N: tr.ranks, Argv: []string{exe}, OnFailure: launch.Continue, Stdout: io.Discard, Stderr: &out,
				Env: append(os.Environ(), roleEnv+"=transcript", asyncEnv+"=1", dirEnv+"="+dir),
			})
			ended <- err
		}()
		for _, l := range lines {
			l.pid, err = strconv.Atoi(l.next(t))
			require.NoError(t, err)
		}
		for _, s := range tr.steps {
			l := lines[s.rank]
			if s.kill {
				require.NoError(t, syscall.Kill(l.pid, syscall.SIGKILL))
				l.pid = 0
				continue
			}
			got := l.ask(t, s.verb)
			for i := 0; i < patience && s.early(got); i++ {
				got = l.ask(t, s.verb)
			}
			require.NoError(t, s.meets(got))
		}
		for _, l := range lines {
			if l.pid != 0 {
				fmt.Fprintln(l.to, "finalize")
			}
		}
		require.NoError(t, <-ended)
		require.Equal(t, tr.kills(), strings.Count(out.String(), "\n"), out.String()) // a remark for each
	})
}

// wire is how the test talks with a rank.
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
		f, err := os.OpenFile(path, os.O_RDWR, 0) // so that opening waits for nobody
		require.NoError(t, err)
		t.Cleanup(func() { f.Close() })
		return f
	}
	w := &wire{to: open("to"), from: open("from")}
	w.lines = bufio.NewReader(w.from)
	return w
}

// next gives the rank's next line; a rank that hangs is an error.
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
